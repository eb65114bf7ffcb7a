"""What a user meets: the first hour and the live panel."""
