"""The pages of a release: all of their bytes follow from the statement, images and previews."""
