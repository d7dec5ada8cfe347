"""Fixed settings of weft's own Spark sessions.

Results must not depend on the user's Spark configuration, and weft's own evaluation (`kernels/`) implements these.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

_MEANING = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.interval.enabled": "false",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.allowNegativeScaleOfDecimal": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.castComplexTypesToString.enabled": "false",
    "spark.sql.legacy.followThreeValuedLogicInArrayExists": "true",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "false",
    "spark.sql.legacy.javaCharsets": "false",
    "spark.sql.legacy.codingErrorAction": "false",
    # A query must not read Spark's settings or Java's environment: '${env:TOKEN}' is an ordinary string.
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    # A shared subexpression may raise, so it must not be computed before the guard of one of its uses.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.error.messageFormat": "PRETTY",
}

_BATCHES = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    "spark.sql.execution.interruptOnCancel": "true",
    # With isolation, every start of a streaming query gets its own Python workers and a process that forks them, which
    # stays until Spark ends. weft adds no session-specific files or classes, so it needs no isolation.
    "spark.sql.artifact.isolation.enabled": "false",
}

PINNED = _MEANING | _BATCHES

# Settings that only locate tables, sources and plug-ins, or distribute work. All others may change results.
_KEPT = tuple(
    f"spark.sql.{name}"
    for name in (
        "avro",
        "cache",
        "catalog",
        "defaultCatalog",
        "extensions",
        "files",
        "hive",
        "kafka",
        "leafNodeDefaultParallelism",
        "orc",
        "parquet",
        "queryExecutionListeners",
        "shuffle",
        "sources",
        "streaming",
        "warehouse",
    )
)


def pin(spark: SparkSession) -> None:
    """Apply the fixed settings to one of weft's own sessions, and reset other settings that may change the meaning of
    an expression to Spark's defaults."""
    for key in spark.conf.getAll:
        may_change_results = key.startswith("spark.sql.") and key not in PINNED and not key.startswith(_KEPT)
        if may_change_results and spark.conf.isModifiable(key):
            spark.conf.unset(key)
    settings = PINNED | {"spark.sql.files.minPartitionNum": str(spark.sparkContext.defaultParallelism)}
    for key, value in settings.items():
        spark.conf.set(key, value)
