"""Evaluation of expressions over Arrow arrays, with the results of Spark SQL in ANSI mode and UTC."""
