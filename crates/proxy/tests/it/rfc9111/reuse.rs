//! Section 4: which request may have a page; 4.1: `Vary`; 4.2.4 and RFC 5861: stale ones.

use super::*;

#[tokio::test]
async fn who_may_have_a_page() {
    run(KEYS).await;
    run(VARY).await;
}

#[tokio::test]
async fn when_a_stale_page_is_given() {
    run(STALE).await;
}

#[tokio::test]
async fn what_cache_status_says() {
    run(CACHE_STATUS).await;
}

const FRESH: (&str, &str) = ("Cache-Control", "max-age=60");

const KEYS: &[Row] = &[
    (
        "4",
        "another query is another page",
        &[
            Answer(200, &[FRESH], "a"),
            Ask("GET", "/page?a", PLAIN),
            Ask("GET", "/page?b", PLAIN),
            Count(2),
            Ask("GET", "/page?a", PLAIN),
            Count(2),
        ],
    ),
    (
        "4",
        "a HEAD is answered by the page of its GET",
        &[
            Answer(200, &[FRESH], "abc"),
            Miss(PLAIN),
            Ask("HEAD", "/page", PLAIN),
            Count(1),
            Body(""),
            Header("content-length", Some("3")),
        ],
    ),
    (
        "2",
        "a GET is not answered by what a HEAD brought",
        &[Answer(200, &[FRESH], "abc"), Ask("HEAD", "/page", PLAIN), Miss(PLAIN), Body("abc")],
    ),
    (
        "4",
        "the most recent of two pages is given",
        &[
            Answer(200, &[FRESH, ("X", "1")], "a"),
            Miss(PLAIN),
            Answer(200, &[FRESH, ("X", "2")], "b"),
            Miss(&[("cache-control", "no-cache")]),
            Hit(PLAIN),
            Body("b"),
        ],
    ),
    (
        "3",
        "a newer response that is not stored leaves the older one",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Answer(200, &[("Cache-Control", "no-store")], "b"),
            Miss(&[("cache-control", "no-cache")]),
            Hit(PLAIN),
            Body("a"),
        ],
    ),
    (
        "RFC 9110",
        "a request that wants another protocol is not answered by a page",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Miss(&[("upgrade", "a"), ("connection", "upgrade-not")]),
        ],
    ),
];

const VARY: &[Row] = &[
    (
        "4.1",
        "a request with the same value has it",
        &[Answer(200, &[FRESH, ("Vary", "Foo")], "a"), Miss(&[("foo", "1")]), Hit(&[("foo", "1")])],
    ),
    (
        "4.1",
        "one with another value has not",
        &[
            Answer(200, &[FRESH, ("Vary", "Foo")], "a"),
            Miss(&[("foo", "1")]),
            Miss(&[("foo", "2")]),
            Hit(&[("foo", "1")]),
            Hit(&[("foo", "2")]),
        ],
    ),
    (
        "4.1",
        "nor one without it",
        &[
            Answer(200, &[FRESH, ("Vary", "Foo")], "a"),
            Miss(&[("foo", "1")]),
            Miss(PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "4.1",
        "an empty value is another than none",
        &[Answer(200, &[FRESH, ("Vary", "Foo")], "a"), Miss(PLAIN), Miss(&[("foo", "")])],
    ),
    (
        "4.1",
        "names are compared without case, values with it",
        &[
            Answer(200, &[FRESH, ("Vary", "fOO")], "a"),
            Miss(&[("Foo", "a")]),
            Hit(&[("FOO", "a")]),
            Miss(&[("foo", "A")]),
        ],
    ),
    (
        "4.1",
        "all that are named have to match",
        &[
            Answer(200, &[FRESH, ("Vary", "Foo, Bar"), ("Vary", "Baz")], "a"),
            Miss(&[("foo", "1"), ("bar", "2"), ("baz", "3")]),
            Hit(&[("baz", "3"), ("bar", "2"), ("foo", "1")]),
            Miss(&[("foo", "1"), ("bar", "2"), ("baz", "4")]),
            Miss(&[("foo", "1"), ("bar", "2")]),
        ],
    ),
    (
        "4.1",
        "white space between values does not matter",
        &[
            Answer(200, &[FRESH, ("Vary", "Foo")], "a"),
            Miss(&[("foo", "1, 2")]),
            Hit(&[("foo", "1,2")]),
            Hit(&[("foo", "1"), ("foo", "2")]),
            Miss(&[("foo", "2, 1")]),
        ],
    ),
    (
        "4.1",
        "Accept-Language has neither case nor order, and a weight of 1 is none",
        &[
            Answer(200, &[FRESH, ("Vary", "Accept-Language")], "a"),
            Miss(&[("accept-language", "en, de")]),
            Hit(&[("accept-language", "de,EN")]),
            Hit(&[("accept-language", " en ,   de")]),
            Hit(&[("accept-language", "de"), ("accept-language", "en;q=1.0")]),
            Miss(&[("accept-language", "en, de;q=0.5")]),
            Hit(&[("accept-language", "de; q=0.5, en")]),
            Miss(&[("accept-language", "en")]),
        ],
    ),
    (
        "4.1",
        "nor has Accept-Encoding",
        &[
            Answer(200, &[FRESH, ("Vary", "Accept-Encoding")], "a"),
            Miss(&[("accept-encoding", "gzip, br")]),
            Hit(&[("accept-encoding", "br, GZIP")]),
            Miss(&[("accept-encoding", "br, gzip;q=0")]),
            Miss(PLAIN),
        ],
    ),
    (
        "4.1",
        "others do not matter",
        &[
            Answer(200, &[FRESH, ("Vary", "Foo")], "a"),
            Miss(&[("foo", "1"), ("other", "1")]),
            Hit(&[("foo", "1"), ("other", "2")]),
        ],
    ),
    (
        "4.1",
        "* never matches",
        &[Answer(200, &[FRESH, ("Vary", "*")], "a"), Miss(PLAIN), Miss(PLAIN)],
    ),
    (
        "4.1",
        "nor does it in a list",
        &[
            Answer(200, &[FRESH, ("Vary", "Foo, *")], "a"),
            Miss(&[("foo", "1")]),
            Miss(&[("foo", "1")]),
        ],
    ),
    (
        "4.1",
        "nor on a further line",
        &[Answer(200, &[FRESH, ("Vary", ""), ("Vary", "*")], "a"), Miss(PLAIN), Miss(PLAIN)],
    ),
    (
        "4.1",
        "a page without Vary is for any",
        &[Answer(200, &[FRESH], "a"), Miss(&[("foo", "1")]), Hit(&[("foo", "2")])],
    ),
];

const STALE: &[Row] = &[
    (
        "4.2.4",
        "a stale page is not given where its upstream is reached",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Pass(61),
            Answer(503, &[], "b"),
            Status(PLAIN, 503),
        ],
    ),
    (
        "4.2.4",
        "where it cannot be reached, for as long as stale_if_unreachable says",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Pass(119),
            Break,
            Status(PLAIN, 200),
            Body("a"),
            Pass(1),
            Status(PLAIN, 502),
        ],
    ),
    (
        "4.2.4",
        "but not to a caller who wants none that is not validated",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Pass(61),
            Break,
            Status(&[("cache-control", "no-cache")], 502),
        ],
    ),
    (
        "5.2.2.10",
        "nor with s-maxage",
        &[
            Answer(200, &[("Cache-Control", "s-maxage=60")], "a"),
            Miss(PLAIN),
            Pass(61),
            Break,
            Status(PLAIN, 502),
        ],
    ),
    (
        "5.2.2.2",
        "nor with must-revalidate",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, must-revalidate")], "a"),
            Miss(PLAIN),
            Pass(61),
            Break,
            Status(PLAIN, 502),
        ],
    ),
    (
        "5.2.2.8",
        "nor with proxy-revalidate",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, proxy-revalidate")], "a"),
            Miss(PLAIN),
            Pass(61),
            Break,
            Status(PLAIN, 502),
        ],
    ),
    (
        "RFC 5861 4",
        "nor for longer than stale-if-error, where a page says that",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, stale-if-error=10")], "a"),
            Miss(PLAIN),
            Pass(71),
            Break,
            Status(PLAIN, 502),
        ],
    ),
    (
        "5.2.2.2",
        "must-revalidate: an error, if the upstream cannot be reached",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60, must-revalidate, stale-if-error=600")],
                "a",
            ),
            Miss(PLAIN),
            Pass(61),
            Break,
            Status(PLAIN, 502),
        ],
    ),
    (
        "5.2.2.8",
        "proxy-revalidate: the same",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60, proxy-revalidate, stale-if-error=600")],
                "a",
            ),
            Miss(PLAIN),
            Pass(61),
            Break,
            Status(PLAIN, 502),
        ],
    ),
    (
        "5.2.2.4",
        "no-cache: not without validation, fresh or not",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, no-cache"), ("ETag", "\"a\"")], "a"),
            Miss(PLAIN),
            Break,
            Status(PLAIN, 502),
        ],
    ),
    (
        "RFC 5861 4",
        "stale-if-error: given in place of an error",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, stale-if-error=600")], "a"),
            Miss(PLAIN),
            Pass(61),
            Break,
            Status(PLAIN, 200),
            Body("a"),
            Header("age", Some("61")),
        ],
    ),
    (
        "RFC 5861 4",
        "500, 502, 503 and 504 are errors",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, stale-if-error=600")], "a"),
            Miss(PLAIN),
            Pass(61),
            Answer(500, &[], "b"),
            Status(PLAIN, 200),
            Answer(502, &[], "b"),
            Status(PLAIN, 200),
            Answer(503, &[], "b"),
            Status(PLAIN, 200),
            Answer(504, &[], "b"),
            Status(PLAIN, 200),
            Answer(404, &[], "b"),
            Status(PLAIN, 404),
        ],
    ),
    (
        "RFC 5861 4",
        "and no longer than it says",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, stale-if-error=600")], "a"),
            Miss(PLAIN),
            Pass(661),
            Break,
            Status(PLAIN, 502),
        ],
    ),
    (
        "RFC 5861 4",
        "a request may say it, too",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Pass(121),
            Break,
            Status(&[("cache-control", "stale-if-error=600")], 200),
            Status(PLAIN, 502),
        ],
    ),
    (
        "RFC 5861 3",
        "stale-while-revalidate: given, and validated meanwhile",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, stale-while-revalidate=30")], "a"),
            Miss(PLAIN),
            Pass(61),
            Answer(200, &[FRESH], "b"),
            Status(PLAIN, 200),
            Body("a"),
            Settle(2),
            Hit(PLAIN),
            Body("b"),
        ],
    ),
    (
        "RFC 5861 3",
        "and no longer than it says",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, stale-while-revalidate=30")], "a"),
            Miss(PLAIN),
            Pass(91),
            Answer(200, &[FRESH], "b"),
            Miss(PLAIN),
            Body("b"),
        ],
    ),
    (
        "5.2.2.2",
        "not with must-revalidate",
        &[
            Answer(
                200,
                &[("Cache-Control", "max-age=60, stale-while-revalidate=30, must-revalidate")],
                "a",
            ),
            Miss(PLAIN),
            Pass(61),
            Answer(200, &[FRESH], "b"),
            Miss(PLAIN),
            Body("b"),
        ],
    ),
];

const CACHE_STATUS: &[Row] = &[
    (
        "RFC 9211",
        "a page that was not there",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Header("cache-status", Some("tidewire; fwd=uri-miss; stored")),
        ],
    ),
    (
        "RFC 9211",
        "one that was",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Pass(10),
            Hit(PLAIN),
            Header("cache-status", Some("tidewire; hit; ttl=50")),
        ],
    ),
    (
        "RFC 9211",
        "one for another request",
        &[
            Answer(200, &[FRESH, ("Vary", "Foo")], "a"),
            Miss(PLAIN),
            Miss(&[("foo", "1")]),
            Header("cache-status", Some("tidewire; fwd=vary-miss; stored")),
        ],
    ),
    (
        "RFC 9211",
        "one that is stale",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Pass(60),
            Miss(PLAIN),
            Header("cache-status", Some("tidewire; fwd=stale; stored")),
        ],
    ),
    (
        "RFC 9211",
        "one that was validated",
        &[
            Answer(200, &[FRESH, ("ETag", "\"a\"")], "a"),
            Miss(PLAIN),
            Pass(60),
            Answer(304, &[FRESH, ("ETag", "\"a\"")], ""),
            Miss(PLAIN),
            Header("cache-status", Some("tidewire; fwd=stale; fwd-status=304; stored")),
        ],
    ),
    (
        "RFC 9211",
        "one that the request did not want",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Miss(&[("cache-control", "no-cache")]),
            Header("cache-status", Some("tidewire; fwd=request; stored")),
        ],
    ),
    (
        "RFC 9211",
        "what cannot be stored",
        &[
            Answer(200, &[("Cache-Control", "no-store")], "a"),
            Miss(PLAIN),
            Header("cache-status", Some("tidewire; fwd=uri-miss")),
        ],
    ),
    (
        "RFC 9211",
        "another verb",
        &[
            Answer(200, &[], "a"),
            Ask("POST", "/page", PLAIN),
            Header("cache-status", Some("tidewire; fwd=method")),
        ],
    ),
    (
        "RFC 9211",
        "a stale page",
        &[
            Answer(200, &[("Cache-Control", "max-age=60, stale-if-error=600")], "a"),
            Miss(PLAIN),
            Pass(70),
            Answer(503, &[], ""),
            Status(PLAIN, 200),
            Header("cache-status", Some("tidewire; hit; fwd=stale; fwd-status=503; ttl=-10")),
        ],
    ),
];
