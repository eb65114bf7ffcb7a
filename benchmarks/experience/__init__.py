"""The user experience: the first hour and the live panel."""
