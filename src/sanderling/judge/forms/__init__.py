"""What a judging model is asked and how its reply is read: one form a file, in our words and the publisher's shape."""
