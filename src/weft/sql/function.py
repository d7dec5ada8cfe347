"""What Spark's functions mean for us: those we refuse, and the result types of some we leave to Spark."""

from __future__ import annotations

from weft.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType

AGGREGATES = frozenset(
    "any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine "
    "array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or "
    "collect_list collect_set collect_union corr count count_if count_min_sketch covar_pop covar_samp every first "
    "first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kurtosis last last_value listagg "
    "max max_by mean measure median min min_by mode percentile percentile_approx percentile_cont percentile_disc "
    "regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy session_window "
    "skewness some std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg "
    "theta_union_agg try_avg try_sum var_pop var_samp variance window window_time "
    "kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double "
    "kll_sketch_agg_float tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double "
    "tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer".split()
)

# Aggregates weft computes; all others are refused by name.
COMPUTED = frozenset(
    "approx_count_distinct approx_percentile avg count max mean min percentile_approx std stddev stddev_pop "
    "stddev_samp sum var_pop var_samp variance".split()
)
COMPUTED_TEXT = (
    "COUNT, SUM, MIN, MAX, AVG, STDDEV, STDDEV_POP, VARIANCE, VAR_POP, COUNT(DISTINCT …), APPROX_COUNT_DISTINCT and "
    "PERCENTILE_APPROX"
)

# Windows as Spark writes them, in GROUP BY.
WINDOWS = frozenset(("window", "session_window"))

RANKINGS = frozenset("counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number".split())

GENERATORS = frozenset(
    "collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer python_worker_logs "
    "sql_keywords stack variant_explode variant_explode_outer".split()
)

# Their value depends on more than the row: a retried or re-planned batch would give other results, and some reach
# out of the query altogether (java_method, reflect).
UNSTABLE = frozenset(
    "aes_encrypt assert_true curdate current_catalog current_database current_date current_path current_schema "
    "current_time current_timestamp current_timezone current_user getdate input_file_block_length "
    "input_file_block_start input_file_name java_method localtimestamp monotonically_increasing_id now raise_error "
    "rand randn random randstr reflect session_user shuffle spark_partition_id sysdate sysdatetime today try_reflect "
    "uniform user uuid version".split()
)

# Those that SQL also takes without parentheses.
UNSTABLE_WORDS = frozenset(
    "current_catalog current_database current_date current_schema current_time current_timestamp current_user "
    "localtimestamp session_user".split()
)

RESULT_TYPES: dict[str, DataType] = {
    name: type_
    for type_, names in (
        (STRING, "base64 btrim char chr concat_ws date_format from_unixtime hex initcap lcase left lower lpad ltrim "
                 "md5 regexp_extract regexp_replace repeat replace right rpad rtrim sha sha1 sha2 soundex space "
                 "substr substring substring_index to_char to_json translate trim ucase upper get_json_object"),
        (INT, "ascii datediff date_diff dayofmonth dayofweek dayofyear find_in_set hash instr levenshtein locate "
              "position quarter weekday weekofyear bit_length octet_length"),
        (BIGINT, "crc32 xxhash64 unix_timestamp to_unix_timestamp unix_seconds unix_millis unix_micros"),
        (DOUBLE, "acos asin atan atan2 cbrt cos cosh exp ln log log10 log1p log2 months_between pow power radians "
                 "degrees sin sinh sqrt tan tanh"),
        (DATE, "add_months curdate date_add date_sub last_day make_date next_day to_date"),
        (TIMESTAMP, "date_trunc from_utc_timestamp timestamp_micros timestamp_millis timestamp_seconds to_timestamp "
                    "to_utc_timestamp"),
        (BOOLEAN, "array_contains isnan isnull isnotnull map_contains_key regexp regexp_like rlike"),
    )
    for name in names.split()
}  # fmt: skip
