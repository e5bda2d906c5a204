//! Section 3: what is stored, and 5.2.2: what directives say of that.

use super::*;

#[tokio::test]
async fn what_is_stored() {
    run(STORED).await;
    run(NOT_STORED).await;
    run(FIELDS).await;
}

const STORED: &[Row] = &[
    (
        "3",
        "a response with max-age is stored",
        &[Answer(200, &[("Cache-Control", "max-age=60")], "a"), Miss(PLAIN), Hit(PLAIN), Body("a")],
    ),
    (
        "3",
        "a response with Expires is stored",
        &[
            Answer(200, &[("Date", "date(0)"), ("Expires", "date(60)")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "3",
        "a status that is not known here is stored if it says how long it is fresh",
        &[
            Answer(299, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
            Status(PLAIN, 299),
        ],
    ),
    (
        "3",
        "404 is stored",
        &[
            Answer(404, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
            Status(PLAIN, 404),
        ],
    ),
    (
        "3",
        "414 is of the target, which is in the key",
        &[
            Answer(414, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
            Status(PLAIN, 414),
        ],
    ),
    (
        "3",
        "503 is stored if it says so",
        &[Answer(503, &[("Cache-Control", "max-age=60")], "a"), Miss(PLAIN), Hit(PLAIN)],
    ),
    (
        "3",
        "204 is stored, without a body",
        &[
            Answer(204, &[("Cache-Control", "max-age=60")], ""),
            Miss(PLAIN),
            Hit(PLAIN),
            Status(PLAIN, 204),
        ],
    ),
    (
        "3",
        "a redirection is stored",
        &[
            Answer(301, &[("Cache-Control", "max-age=60"), ("Location", "/b")], ""),
            Miss(PLAIN),
            Hit(PLAIN),
            Header("location", Some("/b")),
        ],
    ),
    (
        "3.5",
        "Authorization: public is stored",
        &[
            Answer(200, &[("Cache-Control", "public, max-age=60")], "a"),
            Miss(&[("authorization", "a")]),
            Hit(&[("authorization", "a")]),
            Hit(PLAIN),
        ],
    ),
    (
        "3.5",
        "Authorization: s-maxage is stored",
        &[
            Answer(200, &[("Cache-Control", "s-maxage=60")], "a"),
            Miss(&[("authorization", "a")]),
            Hit(&[("authorization", "a")]),
        ],
    ),
    (
        "3.5",
        "Authorization: must-revalidate is stored",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, must-revalidate")], "a"),
            Miss(&[("authorization", "a")]),
            Hit(&[("authorization", "a")]),
        ],
    ),
    (
        "5.2.2.3",
        "must-understand with a status that is known has no-store ignored",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, must-understand, no-store")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "RFC 9213",
        "CDN-Cache-Control counts in place of Cache-Control",
        &[
            Answer(200, &[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
            Header("cdn-cache-control", Some("max-age=60")),
        ],
    ),
    (
        "5.4",
        "Pragma: no-cache in a response has no meaning",
        &[
            Answer(200, &[("Cache-Control", "max-age=60"), ("Pragma", "no-cache")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
];

const NOT_STORED: &[Row] = &[
    (
        "RFC 9110 7.6.1",
        "a response cannot hide its directives in Connection",
        &[
            Answer(
                200,
                &[
                    ("Connection", "Cache-Control"),
                    ("Cache-Control", "private"),
                    ("Last-Modified", "date(-100000)"),
                ],
                "a",
            ),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "3",
        "no-store is not stored",
        &[Answer(200, &[("Cache-Control", "no-store, max-age=60")], "a"), Miss(PLAIN), Miss(PLAIN)],
    ),
    (
        "5.2",
        "directives are compared without case",
        &[
            Answer(200, &[("Cache-Control", "No-StOrE"), ("Expires", "date(60)")], "a"),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "5.2.1.5",
        "nor is the response to a request with no-store",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Miss(&[("cache-control", "no-store")]),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "5.2.2.7",
        "a shared cache does not store private",
        &[Answer(200, &[("Cache-Control", "private, max-age=60")], "a"), Miss(PLAIN), Miss(PLAIN)],
    ),
    (
        "3.5",
        "nor what answers Authorization",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Miss(&[("authorization", "a")]),
            Miss(&[("authorization", "a")]),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "3.5",
        "s-maxage under one credential is not another's",
        &[
            Answer(200, &[("Cache-Control", "s-maxage=60")], "a"),
            Miss(&[("authorization", "a")]),
            Miss(&[("authorization", "b")]),
            Miss(PLAIN),
        ],
    ),
    ("3", "what says nothing is not stored", &[Answer(200, &[], "a"), Miss(PLAIN), Miss(PLAIN)]),
    (
        "3",
        "a status without heuristics is not stored without an explicit time",
        &[Answer(403, &[("Last-Modified", "date(-100000)")], "a"), Miss(PLAIN), Miss(PLAIN)],
    ),
    (
        "5.2.2.3",
        "must-understand with a status that is not known is not stored",
        &[
            Answer(299, &[("Cache-Control", "max-age=60, must-understand")], "a"),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "7.3",
        "nor is a response with Set-Cookie, unless that is asked for",
        &[
            Answer(200, &[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")], "a"),
            Miss(PLAIN),
            Header("set-cookie", Some("a=b")),
            Miss(PLAIN),
        ],
    ),
    (
        "3.3",
        "an incomplete response is not stored as a complete one",
        &[
            Answer(206, &[("Cache-Control", "max-age=60"), ("Content-Range", "bytes 0-0/2")], "a"),
            Miss(&[("range", "bytes=0-0")]),
            Miss(PLAIN),
        ],
    ),
    (
        "2",
        "a POST is not answered by a page",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Ask("POST", "/page", PLAIN),
            Ask("POST", "/page", PLAIN),
            Count(2),
            Miss(PLAIN),
        ],
    ),
    (
        "RFC 9213",
        "CDN-Cache-Control: no-store",
        &[
            Answer(200, &[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "no-store")], "a"),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "RFC 9213",
        "CDN-Cache-Control: private",
        &[
            Answer(200, &[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "private")], "a"),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "RFC 9213",
        "a CDN-Cache-Control that cannot be read is ignored",
        &[
            Answer(
                200,
                &[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=60, &&&")],
                "a",
            ),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "RFC 9213",
        "a CDN-Cache-Control that cannot be read and names private is heeded",
        &[
            Answer(
                200,
                &[
                    ("Cache-Control", "public, max-age=60"),
                    ("CDN-Cache-Control", "s-maxage=\"60\", Private"),
                ],
                "a",
            ),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "RFC 9213",
        "with a CDN-Cache-Control, Expires is ignored",
        &[
            Answer(
                200,
                &[("CDN-Cache-Control", "max-age=0"), ("Expires", "date(60)"), ("Date", "date(0)")],
                "a",
            ),
            Miss(PLAIN),
            Miss(PLAIN),
        ],
    ),
];

const FIELDS: &[Row] = &[
    (
        "3.1",
        "fields that are not known are stored",
        &[
            Answer(200, &[("Cache-Control", "max-age=60"), ("X-Own", "1"), ("X-Own", "2")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
            Header("x-own", Some("1")),
        ],
    ),
    (
        "3.1",
        "fields that Connection names are not",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60"), ("Connection", "a, b"), ("A", "1"), ("C", "3")],
                "a",
            ),
            Miss(PLAIN),
            Hit(PLAIN),
            Header("a", None),
            Header("connection", None),
            Header("c", Some("3")),
        ],
    ),
    (
        "3.1",
        "nor those for proxies alone",
        &[
            Answer(
                200,
                &[
                    ("Cache-Control", "max-age=60"),
                    ("Proxy-Authenticate", "Basic"),
                    ("Proxy-Authentication-Info", "a"),
                    ("Keep-Alive", "timeout=5"),
                ],
                "a",
            ),
            Miss(PLAIN),
            Hit(PLAIN),
            Header("proxy-authenticate", None),
            Header("proxy-authentication-info", None),
            Header("keep-alive", None),
        ],
    ),
    (
        "5.2.2.4",
        "fields that no-cache names are not given again",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60, no-cache=\"a, b\""), ("A", "1"), ("C", "3")],
                "a",
            ),
            Miss(PLAIN),
            Header("a", Some("1")),
            Hit(PLAIN),
            Header("a", None),
            Header("c", Some("3")),
        ],
    ),
    (
        "5.2.2.7",
        "nor those that private names",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60, private=\"Set-Cookie\""), ("Set-Cookie", "a=b")],
                "a",
            ),
            Miss(PLAIN),
            Header("set-cookie", Some("a=b")),
            Hit(PLAIN),
            Header("set-cookie", None),
        ],
    ),
    (
        "RFC 9110 6.6.1",
        "a response without Date gets the time at which it came",
        &[
            Answer(200, &[("Cache-Control", "max-age=60")], "a"),
            Miss(PLAIN),
            Hit(PLAIN),
            Header("date", Some("date(0)")),
        ],
    ),
    (
        "3.1",
        "Date stays as it was",
        &[
            Answer(200, &[("Cache-Control", "max-age=600"), ("Date", "date(0)")], "a"),
            Miss(PLAIN),
            Pass(5),
            Hit(PLAIN),
            Header("date", Some("date(-5)")),
        ],
    ),
];
