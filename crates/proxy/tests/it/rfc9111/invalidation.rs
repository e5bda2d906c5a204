//! Section 4.4: what commands end.

use super::*;

#[tokio::test]
async fn commands_end_pages() {
    run(ROWS).await;
}

const FRESH: (&str, &str) = ("Cache-Control", "max-age=60");

const ROWS: &[Row] = &[
    (
        "RFC 9110 9.3.3",
        "a POST is stored that says that it is what its URL shows, and for how long",
        &[
            Answer(200, &[FRESH, ("Content-Location", "/page")], "posted"),
            Ask("POST", "/page", PLAIN),
            Hit(PLAIN),
            Body("posted"),
        ],
    ),
    (
        "RFC 9110 9.3.3",
        "in place of the page before",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Answer(200, &[FRESH, ("Content-Location", "/page")], "posted"),
            Ask("POST", "/page", PLAIN),
            Hit(PLAIN),
            Body("posted"),
        ],
    ),
    (
        "RFC 9110 9.3.3",
        "not without a time",
        &[
            Answer(
                200,
                &[("Content-Location", "/page"), ("Last-Modified", "date(-100000)")],
                "posted",
            ),
            Ask("POST", "/page", PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "RFC 9110 9.3.3",
        "nor with another URL, nor with none, nor by another verb",
        &[
            Answer(200, &[FRESH, ("Content-Location", "/page?new")], "posted"),
            Ask("POST", "/page", PLAIN),
            Answer(200, &[FRESH], "a"),
            Ask("POST", "/page", PLAIN),
            Answer(200, &[FRESH, ("Content-Location", "/page")], "put"),
            Ask("PUT", "/page", PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "3",
        "nor with private, or for a caller with a credential",
        &[
            Answer(
                200,
                &[("Cache-Control", "private, max-age=60"), ("Content-Location", "/page")],
                "posted",
            ),
            Ask("POST", "/page", PLAIN),
            Answer(200, &[FRESH, ("Content-Location", "/page")], "posted"),
            Ask("POST", "/page", &[("authorization", "Basic YTpi")]),
            Miss(PLAIN),
        ],
    ),
    (
        "4.4",
        "a POST ends the page of its very URL, and not those with another query",
        &[
            Answer(200, &[FRESH], "a"),
            Ask("GET", "/page?a", PLAIN),
            Ask("GET", "/page?b", PLAIN),
            Ask("POST", "/page", PLAIN),
            Count(3),
            Ask("GET", "/page?a", PLAIN),
            Count(3),
            Ask("POST", "/page?b", PLAIN),
            Ask("GET", "/page?b", PLAIN),
            Count(5),
            Ask("GET", "/page?a", PLAIN),
            Count(5),
        ],
    ),
    (
        "4.4",
        "a POST ends the page of its target",
        &[Answer(200, &[FRESH], "a"), Miss(PLAIN), Ask("POST", "/page", PLAIN), Miss(PLAIN)],
    ),
    (
        "4.4",
        "so does PUT",
        &[Answer(200, &[FRESH], "a"), Miss(PLAIN), Ask("PUT", "/page", PLAIN), Miss(PLAIN)],
    ),
    (
        "4.4",
        "and DELETE",
        &[Answer(200, &[FRESH], "a"), Miss(PLAIN), Ask("DELETE", "/page", PLAIN), Miss(PLAIN)],
    ),
    (
        "4.4",
        "and a verb that is not known",
        &[Answer(200, &[FRESH], "a"), Miss(PLAIN), Ask("M-SEARCH", "/page", PLAIN), Miss(PLAIN)],
    ),
    (
        "4.4",
        "with a redirection, too",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Answer(303, &[("Location", "/other")], ""),
            Ask("POST", "/page", PLAIN),
            Answer(200, &[FRESH], "b"),
            Miss(PLAIN),
        ],
    ),
    (
        "4.4",
        "not with an error",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Answer(500, &[], ""),
            Ask("POST", "/page", PLAIN),
            Hit(PLAIN),
            Answer(404, &[], ""),
            Ask("DELETE", "/page", PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "4.4",
        "one that broke off may have run",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Break,
            Ask("POST", "/page", PLAIN),
            Answer(200, &[FRESH], "b"),
            Miss(PLAIN),
        ],
    ),
    (
        "4.4",
        "OPTIONS is safe",
        &[Answer(200, &[FRESH], "a"), Miss(PLAIN), Ask("OPTIONS", "/page", PLAIN), Hit(PLAIN)],
    ),
    (
        "4.4",
        "all pages of the target end, whatever they vary by",
        &[
            Answer(200, &[FRESH, ("Vary", "Foo")], "a"),
            Miss(&[("foo", "1")]),
            Miss(&[("foo", "2")]),
            Ask("POST", "/page", PLAIN),
            Miss(&[("foo", "1")]),
            Miss(&[("foo", "2")]),
        ],
    ),
    (
        "4.4",
        "Location names another page that ends",
        &[
            Answer(200, &[FRESH, ("Location", "/page")], "a"),
            Miss(PLAIN),
            Ask("POST", "/other", PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "4.4",
        "so does Content-Location",
        &[
            Answer(200, &[FRESH, ("Content-Location", "/page")], "a"),
            Miss(PLAIN),
            Ask("POST", "/other", PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "4.4",
        "a whole URL of the same host",
        &[
            Answer(200, &[FRESH, ("Location", "http://SHOP.example:80/page#x")], "a"),
            Miss(PLAIN),
            Ask("POST", "/other", PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "4.4",
        "a path beside it",
        &[
            Answer(200, &[FRESH, ("Content-Location", "../page")], "a"),
            Miss(PLAIN),
            Ask("POST", "/a/other", PLAIN),
            Miss(PLAIN),
        ],
    ),
    (
        "4.4",
        "not one of another host",
        &[
            Answer(200, &[FRESH, ("Location", "http://other.example/page")], "a"),
            Miss(PLAIN),
            Ask("POST", "/other", PLAIN),
            Hit(PLAIN),
        ],
    ),
    (
        "4.4",
        "nor what a GET names",
        &[
            Answer(200, &[FRESH, ("Content-Location", "/page")], "a"),
            Miss(PLAIN),
            Ask("GET", "/other", PLAIN),
            Hit(PLAIN),
        ],
    ),
];
