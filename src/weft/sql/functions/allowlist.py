"""The functions that a query may call: an allowlist of functions of the row, by their results.

All other functions are refused, even if Spark has them: functions that read files or open connections (xpath,
from_xml), that depend on the clock, on chance or on the session, that call Java, and functions that a later release of
Spark adds. Further rules (literal arguments, bounds) are in `sql/functions/argument_rules.py`.
"""

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

# The aggregates that weft computes; all others are refused by name.
COMPUTED = frozenset(
    "approx_count_distinct approx_percentile avg count max mean min percentile_approx std stddev stddev_pop "
    "stddev_samp sum var_pop var_samp variance".split()
)
COMPUTED_TEXT = (
    "COUNT, SUM, MIN, MAX, AVG, STDDEV, STDDEV_POP, VARIANCE, VAR_POP, COUNT(DISTINCT …), APPROX_COUNT_DISTINCT and "
    "PERCENTILE_APPROX"
)

# Spark's functions for windows in GROUP BY.
WINDOWS = frozenset(("window", "session_window"))

RANKINGS = frozenset("counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number".split())

GENERATORS = frozenset(
    "collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer python_worker_logs "
    "sql_keywords stack variant_explode variant_explode_outer".split()
)

# Functions whose value depends on more than the row; the error message says so.
UNSTABLE = frozenset(
    "aes_encrypt assert_true curdate current_catalog current_database current_date current_path current_schema "
    "current_time current_timestamp current_timezone current_user getdate input_file_block_length "
    "input_file_block_start input_file_name java_method localtime localtimestamp monotonically_increasing_id now "
    "raise_error rand randn random randstr reflect session_user shuffle spark_partition_id sysdate sysdatetime today "
    "try_reflect uniform user uuid version".split()
)

# Unstable functions that SQL also accepts without parentheses.
UNSTABLE_WORDS = frozenset(
    "current_catalog current_database current_date current_schema current_time current_timestamp current_user "
    "localtime localtimestamp session_user".split()
)

NUMBER_FUNCTIONS = frozenset(
    "abs acos acosh array_contains array_position array_size arrays_overlap ascii asin asinh atan atan2 atanh bigint "
    "bit_count bit_get bit_length boolean bround cardinality cbrt ceil ceiling char_length character_length contains "
    "cos cosh cot crc32 csc decimal degrees double e endswith equal_null exists exp expm1 factorial find_in_set float "
    "floor forall getbit hash hypot instr int is_valid_utf8 isnan isnotnull isnull json_array_length len length "
    "levenshtein ln locate log log10 log1p log2 luhn_check map_contains_key mod negative octet_length pi pmod position "
    "positive pow power radians regexp regexp_count regexp_instr regexp_like rint rlike round sec shiftleft shiftright "
    "shiftrightunsigned sign signum sin sinh size smallint sqrt startswith tan tanh tinyint to_number try_add "
    "try_divide try_mod try_multiply try_subtract try_to_number width_bucket xxhash64".split()
)
"""Functions that give numbers or booleans."""

TIME_FUNCTIONS = frozenset(
    "add_months date date_add date_diff date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart "
    "day dayofmonth dayofweek dayofyear extract from_utc_timestamp hour last_day make_date make_dt_interval "
    "make_timestamp make_timestamp_ltz make_timestamp_ntz minute month months_between next_day quarter second "
    "timestamp timestamp_micros timestamp_millis timestamp_seconds timestampadd timestampdiff to_date to_timestamp "
    "to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_to_date try_to_timestamp unix_date "
    "unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year".split()
)
"""Functions that take or give dates and times; those that give them as text are in `TEXT_FUNCTIONS`."""

TEXT_FUNCTIONS = frozenset(
    "base64 bin binary btrim char chr concat concat_ws conv date_format dayname decode elt encode format_number "
    "format_string from_unixtime get_json_object hex initcap lcase left lower lpad ltrim make_valid_utf8 mask md5 "
    "monthname overlay parse_url printf quote regexp_extract regexp_replace regexp_substr repeat replace reverse right "
    "rpad rtrim sha sha1 sha2 soundex space split split_part string substr substring substring_index to_binary to_char "
    "to_json to_varchar translate trim try_parse_url try_to_binary try_url_decode try_validate_utf8 typeof ucase "
    "unbase64 unhex upper url_decode url_encode validate_utf8".split()
)
"""Functions that give text or bytes."""

CHOICE_FUNCTIONS = frozenset("coalesce greatest if ifnull least nanvl nullif nullifzero nvl nvl2 zeroifnull".split())
"""Functions that give one of their arguments."""

COLLECTION_FUNCTIONS = frozenset(
    "array array_append array_compact array_distinct array_except array_intersect array_join array_max array_min "
    "array_prepend array_remove array_sort array_union arrays_zip element_at filter flatten from_json get "
    "json_object_keys map map_concat map_entries map_from_arrays map_from_entries map_keys map_values named_struct "
    "slice sort_array struct transform try_element_at".split()
)
"""Functions that build arrays, maps and structs, or read their elements."""

ALLOWED = NUMBER_FUNCTIONS | TIME_FUNCTIONS | TEXT_FUNCTIONS | CHOICE_FUNCTIONS | COLLECTION_FUNCTIONS

LAMBDAS = frozenset("exists filter forall transform".split())
"""Functions that may take a lambda."""

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
        (DATE, "add_months date_add date_sub last_day make_date next_day to_date"),
        (TIMESTAMP, "date_trunc from_utc_timestamp timestamp_micros timestamp_millis timestamp_seconds to_timestamp "
                    "to_utc_timestamp"),
        (BOOLEAN, "array_contains isnan isnull isnotnull map_contains_key regexp regexp_like rlike"),
    )
    for name in names.split()
}  # fmt: skip
