"""What in a file is recurrent: one module a family of files, and what they share."""
