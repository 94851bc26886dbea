"""The overview of a long history, and the report's page of a made week."""
