"""AutoGP: classifier and regressor that can learn their hyper-parameters by leaving out."""
