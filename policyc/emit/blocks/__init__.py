"""The blocks of a certificate, one file each: every function turns a verified plan into plain JSON values."""
