"""Examples with one label each: data set, augmentation, views and texture features."""
