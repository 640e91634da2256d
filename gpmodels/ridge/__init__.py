"""The linear head with a penalty on its weights that is chosen by held-out groups."""
