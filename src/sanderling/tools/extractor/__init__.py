"""Reading a page with a language model: optional, behind the visit tool; what it quotes is checked against the page."""
