//! Sections 4.2 and 5.2.1: how long a page is fresh, how old it is, and what requests say of that.

use super::*;

#[tokio::test]
async fn how_long_a_page_is_fresh() {
    run(LIFETIMES).await;
    run(HEURISTICS).await;
    run(AGES).await;
}

#[tokio::test]
async fn what_requests_ask_of_freshness() {
    run(REQUESTS).await;
}

const LIFETIMES: &[Row] = &[
    (
        "4.2",
        "it is fresh while its lifetime exceeds its age",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Pass(59),
            Hit(PLAIN),
            Pass(1),
            Miss(PLAIN),
        ],
    ),
    (
        "4.2.1",
        "s-maxage counts before max-age",
        &[
            Answer(200, &[("Cache-Control", "max-age=1, s-maxage=60")], "a"),
            Miss(PLAIN),
            Pass(30),
            Hit(PLAIN),
        ],
    ),
    (
        "4.2.1",
        "s-maxage counts before max-age, if it is shorter",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, s-maxage=1")], "a"),
            Miss(PLAIN),
            Pass(2),
            Miss(PLAIN),
        ],
    ),
    (
        "5.3",
        "max-age counts before Expires",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60"), ("Date", "date(0)"), ("Expires", "date(-9)")],
                "a",
            ),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "5.3",
        "max-age=0 counts before a later Expires",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=0"), ("Date", "date(0)"), ("Expires", "date(60)")],
                "a",
            ),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "4.2.1",
        "Expires counts from Date",
        &[
            Answer(200, &[("Date", "date(-30)"), ("Expires", "date(30)")], "a"),
            Miss(PLAIN),
            Pass(29),
            Hit(PLAIN),
            Pass(1),
            Miss(PLAIN),
        ],
    ),
    (
        "5.3",
        "an Expires in the past is stale",
        &[
            Answer(200, &[("Date", "date(0)"), ("Expires", "date(-30)")], "a"),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "5.3",
        "an Expires that is not a date, 0 above all, is stale",
        &[
            Answer(
                200,
                &[("Date", "date(0)"), ("Expires", "0"), ("Last-Modified", "date(-100000)")],
                "a",
            ),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "5.3",
        "an Expires may have any case",
        &[
            Answer(200, &[("Date", "date(0)"), ("Expires", "THU, 18 aUG 2050 02:01:18 gmt")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "5.3",
        "and the forms of before",
        &[
            Answer(200, &[("Date", "date(0)"), ("Expires", "Thu Aug 18 02:01:18 2050")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
            Answer(
                200,
                &[("Date", "date(0)"), ("Expires", "Thursday, 18-Aug-50 02:01:18 GMT")],
                "a",
            ),
            Miss(&[("cache-control", "no-cache")]),
            Hit(PLAIN),
        ],
    ),
    (
        "5.3",
        "an Expires with another zone than GMT is not a date",
        &[
            Answer(200, &[("Date", "date(0)"), ("Expires", "Thu, 18 Aug 2050 02:01:18 UTC")], "a"),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "4.2.1",
        "a number that is not one makes stale",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=a60"), ("Expires", "date(60)"), ("Date", "date(0)")],
                "a",
            ),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "1.2.2",
        "a number that is too large is a long time",
        &[
            Answer(200, &[("Cache-Control", "max-age=99999999999")], "a"),
            Miss(PLAIN),
            Pass(1_000_000),
            Hit(PLAIN),
        ],
    ),
    (
        "5.2",
        "a directive that is not known is ignored",
        &[
            Answer(200, &[("Cache-Control", "foo, max-age=60, bar=\"max-age=0\"")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "RFC 9213",
        "a long CDN-Cache-Control counts before a short Cache-Control",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=1"), ("CDN-Cache-Control", "max-age=60")],
                "a",
            ),
            Miss(PLAIN),
            Pass(30),
            Hit(PLAIN),
        ],
    ),
    (
        "RFC 9213",
        "a short one counts before a long one",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "max-age=1")],
                "a",
            ),
            Miss(PLAIN),
            Pass(2),
            Miss(PLAIN),
        ],
    ),
];

const HEURISTICS: &[Row] = &[
    (
        "4.2.2",
        "a tenth of the time since Last-Modified",
        &[
            Answer(200, &[("Date", "date(0)"), ("Last-Modified", "date(-1000)")], "a"),
            Miss(PLAIN),
            Pass(99),
            Hit(PLAIN),
            Pass(1),
            Miss(PLAIN),
        ],
    ),
    (
        "4.2.2",
        "404 may be fresh by that",
        &[
            Answer(404, &[("Date", "date(0)"), ("Last-Modified", "date(-1000)")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "4.2.2",
        "201 is not",
        &[
            Answer(201, &[("Date", "date(0)"), ("Last-Modified", "date(-1000)")], "a"),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "4.2.2",
        "any status is, if it says public",
        &[
            Answer(
                599,
                &[
                    ("Date", "date(0)"),
                    ("Last-Modified", "date(-1000)"),
                    ("Cache-Control", "public"),
                ],
                "a",
            ),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "4.2.2",
        "not where a time is said",
        &[
            Answer(
                200,
                &[
                    ("Date", "date(0)"),
                    ("Last-Modified", "date(-1000)"),
                    ("Cache-Control", "max-age=1"),
                ],
                "a",
            ),
            Miss(PLAIN),
            Pass(2),
            Miss(PLAIN),
        ],
    ),
    (
        "4.2.2",
        "a day at most",
        &[
            Answer(200, &[("Date", "date(0)"), ("Last-Modified", "date(-100000000)")], "a"),
            Miss(PLAIN),
            Pass(86399),
            Hit(PLAIN),
            Pass(1),
            Miss(PLAIN),
        ],
    ),
];

const AGES: &[Row] = &[
    (
        "4",
        "a page is given with its age",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Pass(7),
            Hit(PLAIN),
            Header("age", Some("7")),
        ],
    ),
    (
        "4.2.3",
        "with that which it had when it came",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=600"), ("Age", "30"), ("Date", "date(0)")],
                "a",
            ),
            Miss(PLAIN),
            Header("age", Some("30")),
            Pass(7),
            Hit(PLAIN),
            Header("age", Some("37")),
        ],
    ),
    (
        "4.2.3",
        "an age over the lifetime is stale",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60"), ("Age", "61"), ("Date", "date(0)")],
                "a",
            ),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "4.2.3",
        "a Date in the past is an age",
        &[
            Answer(200, &[("Cache-Control", "max-age=60"), ("Date", "date(-61)")], "a"),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "4.2.3",
        "an upstream whose clock is an hour ahead is not older for it",
        &[
            Answer(200, &[("Cache-Control", "max-age=60"), ("Date", "date(3600)")], "a"),
            Miss(PLAIN),
            Pass(59),
            Hit(PLAIN),
            Header("age", Some("59")),
            Pass(1),
            Miss(PLAIN),
        ],
    ),
    (
        "5.1",
        "of two ages the first counts",
        &[
            Answer(
                200,
                &[
                    ("Cache-Control", "max-age=60"),
                    ("Age", "61"),
                    ("Age", "0"),
                    ("Date", "date(0)"),
                ],
                "a",
            ),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "5.1",
        "in a list, too",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60"), ("Age", "0, 61"), ("Date", "date(0)")],
                "a",
            ),
            Miss(PLAIN),
            Hit(PLAIN),
            Header("age", Some("0")),
        ],
    ),
    (
        "5.1",
        "an age that is not a number is ignored",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60"), ("Age", "abc"), ("Date", "date(0)")],
                "a",
            ),
            Miss(PLAIN),
            Hit(PLAIN),
            Header("age", Some("0")),
        ],
    ),
    (
        "5.1",
        "so is a negative one",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60"), ("Age", "-7200"), ("Date", "date(0)")],
                "a",
            ),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
];

const REQUESTS: &[Row] = &[
    (
        "5.2.1.1",
        "max-age of a request: not older",
        &[
            Answer(200, &[("Cache-Control", "max-age=3600")], "a"),
            Miss(PLAIN),
            Pass(10),
            Hit(&[("cache-control", "max-age=10")]),
            Miss(&[("cache-control", "max-age=9")]),
        ],
    ),
    (
        "5.2.1.1",
        "max-age=0 is validated",
        &[
            Answer(200, &[("Cache-Control", "max-age=3600"), ("ETag", "\"a\"")], "a"),
            Miss(PLAIN),
            Pass(1),
            Miss(&[("cache-control", "max-age=0")]),
            Sent("if-none-match", Some("\"a\"")),
        ],
    ),
    (
        "5.2.1.2",
        "max-stale of a request: stale for so long",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Pass(70),
            Hit(&[("cache-control", "max-stale=10")]),
            Header("age", Some("70")),
            Miss(&[("cache-control", "max-stale=9")]),
        ],
    ),
    (
        "5.2.1.2",
        "max-stale without a value: however stale",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Pass(7000),
            Hit(&[("cache-control", "max-stale")]),
        ],
    ),
    (
        "5.2.2.2",
        "not where must-revalidate is said",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, must-revalidate")], "a"),
            Miss(PLAIN),
            Pass(70),
            Miss(&[("cache-control", "max-stale")]),
        ],
    ),
    (
        "5.2.2.8",
        "nor proxy-revalidate",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, proxy-revalidate")], "a"),
            Miss(PLAIN),
            Pass(70),
            Miss(&[("cache-control", "max-stale")]),
        ],
    ),
    (
        "5.2.2.10",
        "nor s-maxage",
        &[
            Answer(200, &[("Cache-Control", "s-maxage=60")], "a"),
            Miss(PLAIN),
            Pass(70),
            Miss(&[("cache-control", "max-stale")]),
        ],
    ),
    (
        "5.2.1.3",
        "min-fresh of a request: fresh for so long still",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Pass(10),
            Hit(&[("cache-control", "min-fresh=50")]),
            Miss(&[("cache-control", "min-fresh=51")]),
        ],
    ),
    (
        "5.2.1.4",
        "no-cache of a request is validated",
        &[
            Answer(200, &[("Cache-Control", "max-age=60"), ("ETag", "\"a\"")], "a"),
            Miss(PLAIN),
            Miss(&[("cache-control", "no-cache")]),
            Sent("if-none-match", Some("\"a\"")),
        ],
    ),
    (
        "5.4",
        "so is Pragma: no-cache, without Cache-Control",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Miss(&[("pragma", "no-cache")]),
            Hit(&[("pragma", "no-cache"), ("cache-control", "max-age=60")]),
        ],
    ),
    (
        "5.2.1.7",
        "only-if-cached is a stored page",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Hit(&[("cache-control", "only-if-cached")]),
        ],
    ),
    (
        "5.2.1.7",
        "or 504",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Status(&[("cache-control", "only-if-cached")], 504),
            Count(0),
        ],
    ),
];
