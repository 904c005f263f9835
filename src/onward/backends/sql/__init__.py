"""What the SQL backends have in common and no database decides: named statements, numbered migrations, whose a key is."""
