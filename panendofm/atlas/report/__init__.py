"""What an atlas holds, as a document and as a page."""
