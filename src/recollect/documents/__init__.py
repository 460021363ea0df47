"""Documents: uploading, reading, chunking and searching them."""
