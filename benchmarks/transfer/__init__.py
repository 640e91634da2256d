"""What transfer is worth: ATL-DGP beside the paper's comparison methods and what users take instead."""
