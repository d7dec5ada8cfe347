"""Values of expressions over Arrow arrays, equal to those of Spark SQL in ANSI mode and UTC."""
