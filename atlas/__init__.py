"""The atlas: public endoscopy datasets under one taxonomy of four levels."""
