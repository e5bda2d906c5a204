package tidewire

// Frames of the live protocol, as bytes: what their parts are called, how they are read and written.

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// violation is a rule of the protocol that the gateway broke.
type violation struct {
	reason uint64
	text   string
}

func must(condition bool, reason uint64, format string, values ...any) {
	if !condition {
		panic(violation{reason, fmt.Sprintf(format, values...)})
	}
}

// Reasons for the end of a connection.
const (
	rMagic = iota + 1
	rVersion
	rFeature
	rTooLarge
	rMalformed
	rMetadataMax
	rUnexpected
	rUnknownStream
	rStreamInUse
	rStreamNumber
	rCallsMax
	rCredit
	rUnknownMethod
	rMethodsMax
	rCommandID
)

const (
	kHello, kRequest, kReply, kError, kItems, kEnd, kCancel, kCredit = 1, 3, 4, 5, 6, 7, 8, 9
	kPing, kPong, kGoaway, kReady, kBusy, kLog, kChanged             = 10, 11, 12, 16, 17, 18, 19
	kStale, kResume, kResumed, kDescriptors                          = 13, 14, 15, 21

	fEnd, fZstd, fHTTP, fMore, fWatched, fUnchanged = 1, 2, 4, 8, 16, 32

	magic            = 0x564c5754
	payloadMax       = 65536
	piece            = 16384
	smallMax         = 16376
	bodyMax          = 64 << 20
	streamCredit     = 262144
	connectionCredit = 1 << 20
	queuedMax        = 65536

	metadataMax          = 16384
	callsMax, methodsMax = 1024, 1024
	outputMax            = 1 << 20
	grace                = 2 * time.Second

	gaveUp = "the caller gave up"
)

var headers = strings.Fields("content-type authorization cookie set-cookie accept accept-encoding accept-language " +
	"user-agent host origin referer content-length content-encoding cache-control etag if-none-match " +
	"if-modified-since last-modified location vary date expires x-forwarded-for x-forwarded-proto x-request-id " +
	"traceparent tracestate baggage")

var tags = func() map[string]byte {
	tags := map[string]byte{}
	for number, name := range headers {
		tags[name] = byte(64 + number)
	}
	return tags
}()

func putVarint(out []byte, value uint64) []byte { return binary.AppendUvarint(out, value) }

func putString[S string | []byte](out []byte, value S) []byte {
	return append(putVarint(out, uint64(len(value))), value...)
}

func putField[S string | []byte](out []byte, tag byte, value S) []byte {
	return putString(append(out, tag), value)
}

func putNumber(out []byte, tag byte, value uint64) []byte {
	return putField(out, tag, putVarint(nil, value))
}

// reader reads numbers and strings; what is cut off ends the session.
type reader struct{ data []byte }

func (r *reader) byte() byte {
	must(len(r.data) > 0, rMalformed, "bytes are cut off")
	first := r.data[0]
	r.data = r.data[1:]
	return first
}

func (r *reader) varint() uint64 {
	value, size := binary.Uvarint(r.data)
	must(size > 0 && size <= 8 && value < 1<<53, rMalformed, "a number that is cut off or too large")
	r.data = r.data[size:]
	return value
}

func (r *reader) string() []byte {
	size := r.varint()
	must(uint64(len(r.data)) >= size, rMalformed, "a string is cut off")
	value := r.data[:size:size]
	r.data = r.data[size:]
	return value
}

// wholeNumber is the number that is all there is.
func wholeNumber(data []byte) uint64 {
	r := reader{data}
	value := r.varint()
	must(len(r.data) == 0, rMalformed, "something follows a number")
	return value
}

func isToken(name string) bool {
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return len(name) > 0 && len(name) <= 256
}

// putHeaders leaves out what the protocol cannot carry.
func putHeaders(out []byte, list []Header) []byte {
	for _, header := range list {
		name := strings.ToLower(header.Name)
		if !isToken(name) || strings.ContainsAny(header.Value, "\r\n\x00") {
			continue
		}
		if tag, ok := tags[name]; ok {
			out = putField(out, tag, header.Value)
		} else {
			out = putString(putString(append(out, 0), name), header.Value)
		}
	}
	return out
}

func putTrailers(out []byte, list []Header) []byte {
	if len(list) == 0 {
		return out
	}
	return putHeaders(append(out, 7, 0), list)
}

func putFrame(out []byte, kind byte, stream uint32, flags byte, metadata, payload []byte, deadline uint32) []byte {
	out = binary.LittleEndian.AppendUint32(out, uint32(len(metadata)+len(payload)))
	out = binary.LittleEndian.AppendUint32(out, stream)
	out = append(out, kind, flags)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(metadata)))
	out = binary.LittleEndian.AppendUint32(out, deadline)
	return append(append(out, metadata...), payload...)
}

// metadata is what goes with a frame: fields by their tags, headers and trailers.
type metadata struct {
	fields            map[byte][]byte
	headers, trailers []Header
	details           [][]byte
}

func readMetadata(data []byte) metadata {
	found, r := metadata{fields: map[byte][]byte{}}, reader{data}
	into := &found.headers
	for len(r.data) > 0 {
		tag := r.byte()
		name := ""
		if tag == 0 {
			name = string(r.string())
		} else if tag >= 64 && int(tag) < 64+len(headers) {
			name = headers[tag-64]
		}
		value := r.string()
		switch {
		case name != "":
			*into = append(*into, Header{name, string(value)})
		case tag == 7:
			into = &found.trailers
		case tag == 10:
			found.details = append(found.details, value)
		default:
			_, isTwice := found.fields[tag]
			must(!isTwice || tag == 6 || tag == 15 || tag > 21, rMalformed, "field %d comes twice", tag)
			found.fields[tag] = value
		}
	}
	return found
}

func (m metadata) number(tag byte, otherwise uint64) uint64 {
	if value, ok := m.fields[tag]; ok {
		return wholeNumber(value)
	}
	return otherwise
}
