//! Section 4.3: validation, of the upstream and by callers, and section 3.2: what a 304 changes;
//! RFC 9110, section 14: parts of a page.

use super::*;

#[tokio::test]
async fn pages_are_validated() {
    run(SENT).await;
    run(FRESHENED).await;
}

#[tokio::test]
async fn callers_validate() {
    run(RECEIVED).await;
}

#[tokio::test]
async fn parts_of_a_page() {
    run(RANGES).await;
}

const FRESH: (&str, &str) = ("Cache-Control", "max-age=60");
const TAG: (&str, &str) = ("ETag", "\"a\"");

const SENT: &[Row] = &[
    (
        "4.3.1",
        "the tag is sent",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Pass(60),
            Miss(PLAIN),
            Sent("if-none-match", Some("\"a\"")),
        ],
    ),
    (
        "4.3.1",
        "a weak one, too",
        &[
            Answer(200, &[FRESH, ("ETag", "W/\"a\"")], "a"),
            Miss(PLAIN),
            Pass(60),
            Miss(PLAIN),
            Sent("if-none-match", Some("W/\"a\"")),
        ],
    ),
    (
        "4.3.1",
        "the time of the last change is sent",
        &[
            Answer(200, &[FRESH, ("Last-Modified", "Thu, 18 Aug 2005 02:01:18 GMT")], "a"),
            Miss(PLAIN),
            Pass(60),
            Miss(PLAIN),
            Sent("if-modified-since", Some("Thu, 18 Aug 2005 02:01:18 GMT")),
        ],
    ),
    (
        "4.3.1",
        "in place of what the caller asks",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Pass(60),
            Miss(&[("if-none-match", "\"other\"")]),
            Sent("if-none-match", Some("\"a\"")),
        ],
    ),
    (
        "4.3.1",
        "with the fields that Vary names",
        &[
            Answer(200, &[FRESH, TAG, ("Vary", "Foo")], "a"),
            Miss(&[("foo", "1")]),
            Pass(60),
            Miss(&[("foo", "1")]),
            Sent("foo", Some("1")),
            Sent("if-none-match", Some("\"a\"")),
        ],
    ),
    (
        "4.3.1",
        "not those of a page for another request",
        &[
            Answer(200, &[FRESH, TAG, ("Vary", "Foo")], "a"),
            Miss(&[("foo", "1")]),
            Pass(60),
            Miss(&[("foo", "2")]),
            Sent("if-none-match", None),
        ],
    ),
    (
        "4.3.1",
        "a page without a validator is asked for as if it were not there",
        &[
            Answer(200, &[FRESH], "a"),
            Miss(PLAIN),
            Pass(60),
            Miss(PLAIN),
            Sent("if-none-match", None),
            Sent("if-modified-since", None),
        ],
    ),
    (
        "5.2.2.4",
        "no-cache is stored, and validated each time",
        &[
            Answer(200, &[("Cache-Control", "no-cache"), TAG], "a"),
            Miss(PLAIN),
            Miss(PLAIN),
            Sent("if-none-match", Some("\"a\"")),
        ],
    ),
];

const FRESHENED: &[Row] = &[
    (
        "4.3.3",
        "304: the page is given, and fresh again",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Pass(60),
            Answer(304, &[FRESH, TAG], ""),
            Miss(PLAIN),
            Status(PLAIN, 200),
            Body("a"),
            Pass(59),
            Hit(PLAIN),
            Body("a"),
        ],
    ),
    (
        "4.3.3",
        "a full response takes its place",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Pass(60),
            Answer(200, &[FRESH, ("ETag", "\"b\"")], "b"),
            Miss(PLAIN),
            Body("b"),
            Hit(PLAIN),
            Body("b"),
        ],
    ),
    (
        "4.3.3",
        "an error is passed on, and the page stays",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Pass(60),
            Answer(500, &[], "b"),
            Status(PLAIN, 500),
            Answer(304, &[FRESH, TAG], ""),
            Miss(PLAIN),
            Body("a"),
        ],
    ),
    (
        "3.2",
        "fields of the 304 take the place of those that are stored",
        &[
            Answer(200, &[FRESH, TAG, ("X-Own", "1"), ("Content-Type", "text/plain")], "a"),
            Miss(PLAIN),
            Pass(60),
            Answer(304, &[FRESH, TAG, ("X-Own", "2"), ("Content-Type", "text/html")], ""),
            Miss(PLAIN),
            Header("x-own", Some("2")),
            Hit(PLAIN),
            Header("x-own", Some("2")),
            Header("content-type", Some("text/html")),
        ],
    ),
    (
        "3.2",
        "those that it does not have stay",
        &[
            Answer(200, &[FRESH, TAG, ("X-Own", "1")], "a"),
            Miss(PLAIN),
            Pass(60),
            Answer(304, &[FRESH, TAG], ""),
            Miss(PLAIN),
            Header("x-own", Some("1")),
        ],
    ),
    (
        "3.2",
        "Content-Length stays",
        &[
            Answer(200, &[FRESH, TAG], "abc"),
            Miss(PLAIN),
            Pass(60),
            Answer(304, &[FRESH, TAG, ("Content-Length", "10")], ""),
            Miss(PLAIN),
            Header("content-length", Some("3")),
            Body("abc"),
        ],
    ),
    (
        "3.2",
        "a 304 that says another time changes it",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Pass(60),
            Answer(304, &[("Cache-Control", "max-age=600"), TAG], ""),
            Miss(PLAIN),
            Pass(500),
            Hit(PLAIN),
        ],
    ),
    (
        "4.3.4",
        "a 304 of another page makes ours no fresher",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Pass(60),
            Answer(304, &[FRESH, ("ETag", "\"b\"")], ""),
            Miss(PLAIN),
            Answer(200, &[FRESH], "b"),
            Miss(PLAIN),
            Body("b"),
        ],
    ),
    (
        "4.3.4",
        "a 304 to a caller's own condition, with nothing stored, is the caller's",
        &[
            Answer(304, &[FRESH, TAG], ""),
            Status(&[("if-none-match", "\"a\"")], 304),
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Body("a"),
        ],
    ),
    (
        "4.3.5",
        "a HEAD that says something else makes the page stale",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Answer(200, &[FRESH, ("ETag", "\"b\"")], ""),
            Ask("HEAD", "/page", &[("cache-control", "no-cache")]),
            Count(2),
            Answer(200, &[FRESH], "b"),
            Miss(PLAIN),
            Body("b"),
        ],
    ),
];

const RECEIVED: &[Row] = &[
    (
        "4.3.2",
        "a caller who holds the page is told so",
        &[
            Answer(200, &[FRESH, TAG, ("X-Own", "1")], "a"),
            Miss(PLAIN),
            Status(&[("if-none-match", "\"a\"")], 304),
            Body(""),
            Header("etag", Some("\"a\"")),
            Header("cache-control", Some("max-age=60")),
            Header("content-length", None),
            Count(1),
        ],
    ),
    (
        "4.3.2",
        "tags are compared weakly",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Status(&[("if-none-match", "W/\"a\"")], 304),
            Count(1),
        ],
    ),
    (
        "4.3.2",
        "one of several is enough",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Status(&[("if-none-match", "\"b\", \"a\", \"c\"")], 304),
        ],
    ),
    (
        "4.3.2",
        "* is any",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Status(&[("if-none-match", "*")], 304),
            Count(1),
        ],
    ),
    (
        "4.3.2",
        "another tag is another page",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Hit(&[("if-none-match", "\"b\"")]),
            Body("a"),
        ],
    ),
    (
        "4.3.2",
        "If-None-Match counts before If-Modified-Since",
        &[
            Answer(200, &[FRESH, TAG, ("Last-Modified", "date(-500)")], "a"),
            Miss(PLAIN),
            Status(&[("if-none-match", "\"b\""), ("if-modified-since", "date(0)")], 200),
            Count(1),
        ],
    ),
    (
        "4.3.2",
        "If-Modified-Since with that time or a later one",
        &[
            Answer(200, &[FRESH, ("Last-Modified", "date(-500)")], "a"),
            Miss(PLAIN),
            Status(&[("if-modified-since", "date(-500)")], 304),
            Status(&[("if-modified-since", "date(-1)")], 304),
            Status(&[("if-modified-since", "date(-501)")], 200),
            Count(1),
        ],
    ),
    (
        "4.3.2",
        "without Last-Modified, Date counts",
        &[
            Answer(200, &[FRESH, ("Date", "date(0)")], "a"),
            Miss(PLAIN),
            Status(&[("if-modified-since", "date(0)")], 304),
            Status(&[("if-modified-since", "date(-1)")], 200),
        ],
    ),
    (
        "4.3.2",
        "a time that is not a date is ignored",
        &[
            Answer(200, &[FRESH, ("Last-Modified", "date(-500)")], "a"),
            Miss(PLAIN),
            Status(&[("if-modified-since", "yesterday")], 200),
        ],
    ),
    (
        "4.3.2",
        "a page that was just validated is compared, too",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Pass(60),
            Answer(304, &[FRESH, TAG], ""),
            Status(&[("if-none-match", "\"a\"")], 304),
        ],
    ),
    (
        "4.3.2",
        "conditions that are the upstream's are not answered here",
        &[
            Answer(200, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Miss(&[("if-match", "\"b\"")]),
            Miss(&[("if-unmodified-since", "date(0)")]),
        ],
    ),
    (
        "4.3.2",
        "only a page with status 200 is compared",
        &[
            Answer(404, &[FRESH, TAG], "a"),
            Miss(PLAIN),
            Status(&[("if-none-match", "\"a\"")], 404),
            Count(1),
        ],
    ),
];

const RANGES: &[Row] = &[
    (
        "RFC 9111 3.3",
        "a part that came alone is given for the same range again, and for nothing else",
        &[
            Answer(206, &[FRESH, TAG, ("Content-Range", "bytes 0-1/10")], "01"),
            Status(&[("range", "bytes=0-1")], 206),
            Count(1),
            Status(&[("range", "bytes=0-1")], 206),
            Body("01"),
            Header("content-range", Some("bytes 0-1/10")),
            Count(1),
            Status(&[("range", "bytes=0-1"), ("if-range", "\"a\"")], 206),
            Count(1),
            Status(&[("range", "bytes=0-1"), ("if-none-match", "\"a\"")], 304),
            Count(1),
            Status(&[("range", "bytes=0-1"), ("if-range", "\"b\"")], 206),
            Count(2),
            Answer(206, &[FRESH, TAG, ("Content-Range", "bytes 2-3/10")], "23"),
            Status(&[("range", "bytes=2-3")], 206),
            Body("23"),
            Count(3),
            Answer(200, &[FRESH, TAG], "0123456789"),
            Miss(PLAIN),
            Body("0123456789"),
            Ask("HEAD", "/page", &[("range", "bytes=0-1")]),
            Header("content-length", Some("10")),
        ],
    ),
    (
        "RFC 9111 3.3",
        "several parts in one body are not stored, nor is one that nobody asked for",
        &[
            Answer(206, &[FRESH, ("Content-Type", "multipart/byteranges; boundary=a")], "01"),
            Status(&[("range", "bytes=0-0,2-2")], 206),
            Status(&[("range", "bytes=0-0,2-2")], 206),
            Count(2),
            Answer(206, &[FRESH, ("Content-Range", "bytes 0-1/10")], "01"),
            Status(PLAIN, 206),
            Status(PLAIN, 206),
            Count(4),
        ],
    ),
    (
        "RFC 9111 4.3.1",
        "a part that is stale is validated",
        &[
            Answer(206, &[FRESH, TAG, ("Content-Range", "bytes 0-1/10")], "01"),
            Status(&[("range", "bytes=0-1")], 206),
            Pass(60),
            Answer(304, &[FRESH, TAG], ""),
            Status(&[("range", "bytes=0-1")], 206),
            Sent("if-none-match", Some("\"a\"")),
            Body("01"),
            Count(2),
        ],
    ),
    (
        "RFC 9110 14.2",
        "a part of a stored page",
        &[
            Answer(200, &[FRESH], "0123456789"),
            Miss(PLAIN),
            Status(&[("range", "bytes=0-1")], 206),
            Body("01"),
            Header("content-range", Some("bytes 0-1/10")),
            Header("content-length", Some("2")),
            Count(1),
        ],
    ),
    (
        "RFC 9110 14.1.2",
        "from a place on",
        &[
            Answer(200, &[FRESH], "0123456789"),
            Miss(PLAIN),
            Status(&[("range", "bytes=7-")], 206),
            Body("789"),
        ],
    ),
    (
        "RFC 9110 14.1.2",
        "the last bytes",
        &[
            Answer(200, &[FRESH], "0123456789"),
            Miss(PLAIN),
            Status(&[("range", "bytes=-2")], 206),
            Body("89"),
        ],
    ),
    (
        "RFC 9110 14.1.2",
        "a last byte past the end is the end",
        &[
            Answer(200, &[FRESH], "0123456789"),
            Miss(PLAIN),
            Status(&[("range", "bytes=8-99")], 206),
            Body("89"),
        ],
    ),
    (
        "RFC 9110 15.5.17",
        "nothing of it is 416",
        &[
            Answer(200, &[FRESH], "0123456789"),
            Miss(PLAIN),
            Status(&[("range", "bytes=10-")], 416),
            Header("content-range", Some("bytes */10")),
        ],
    ),
    (
        "RFC 9110 14.2",
        "what is not a range is ignored",
        &[
            Answer(200, &[FRESH], "0123456789"),
            Miss(PLAIN),
            Status(&[("range", "lines=1-2")], 200),
            Status(&[("range", "bytes=2-1")], 200),
            Status(&[("range", "bytes=a-b")], 200),
            Count(1),
        ],
    ),
    (
        "RFC 9110 13.1.5",
        "If-Range with the tag",
        &[
            Answer(200, &[FRESH, TAG], "0123456789"),
            Miss(PLAIN),
            Status(&[("range", "bytes=0-1"), ("if-range", "\"a\"")], 206),
            Status(&[("range", "bytes=0-1"), ("if-range", "\"b\"")], 200),
            Status(&[("range", "bytes=0-1"), ("if-range", "W/\"a\"")], 200),
            Count(1),
        ],
    ),
    (
        "3.4",
        "a part is passed on where nothing is stored, and not taken for the whole",
        &[
            Answer(206, &[FRESH, ("Content-Range", "bytes 0-1/10")], "01"),
            Status(&[("range", "bytes=0-1")], 206),
            Sent("range", Some("bytes=0-1")),
            Answer(200, &[FRESH], "0123456789"),
            Miss(PLAIN),
        ],
    ),
];
