package tidewire

// Frames of the live protocol, as bytes: what their parts are called, how they are read and written.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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
	kHello = iota + 1
	kAuth
	kRequest
	kReply
	kError
	kItems
	kEnd
	kCancel
	kCredit
	kPing
	kPong
	kGoaway
	kStale
	kResume
	kResumed
	kReady
	kBusy
	kLog
	kChanged
	kSeen
	kDescriptors
)

const (
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

// logField makes a field of a line in the log what a header can be: nothing of it is left out.
func logField(field Header) Header {
	name := strings.Map(func(sign rune) rune {
		if !isToken(string(sign)) {
			return '-'
		}
		return sign
	}, strings.ToLower(cut(field.Name, 256)))
	var value strings.Builder
	for _, sign := range field.Value {
		switch {
		case sign == '\n':
			value.WriteString(`\n`)
		case sign == '\r':
			value.WriteString(`\r`)
		case unicode.IsControl(sign) && sign != '\t':
			fmt.Fprintf(&value, `\u{%x}`, sign)
		default:
			value.WriteRune(sign)
		}
	}
	if name == "" {
		name = "field"
	}
	return Header{name, value.String()}
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

// frame is one of the protocol, its metadata as bytes.
type frame struct {
	kind, flags       byte
	stream, deadline  uint32
	metadata, payload []byte
}

func putFrame(out []byte, f frame) []byte {
	out = binary.LittleEndian.AppendUint32(out, uint32(len(f.metadata)+len(f.payload)))
	out = binary.LittleEndian.AppendUint32(out, f.stream)
	out = append(out, f.kind, f.flags)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(f.metadata)))
	out = binary.LittleEndian.AppendUint32(out, f.deadline)
	return append(append(out, f.metadata...), f.payload...)
}

// takeFrame is the frame at the beginning of some bytes, and its size; 0 where it is not whole.
func takeFrame(data []byte, metadataMax int) (frame, int) {
	if len(data) < 16 {
		return frame{}, 0
	}
	length, meta := int(binary.LittleEndian.Uint32(data)), int(binary.LittleEndian.Uint16(data[10:]))
	must(meta <= length, rMalformed, "metadata longer than its frame")
	must(length-meta <= payloadMax, rTooLarge, "a frame over the limit")
	must(meta <= metadataMax, rMetadataMax, "metadata over the limit")
	if len(data) < 16+length {
		return frame{}, 0
	}
	body := bytes.Clone(data[16 : 16+length])
	return frame{data[8], data[9], binary.LittleEndian.Uint32(data[4:]), binary.LittleEndian.Uint32(data[12:]),
		body[:meta], body[meta:]}, 16 + length
}

// fields are values by their tags; those of the future are left out.
type fields [32][]byte

func (f *fields) put(tag byte, value []byte, mayRepeat bool) {
	if int(tag) < len(f) {
		must(f[tag] == nil || mayRepeat, rMalformed, "field %d comes twice", tag)
		f[tag] = value
	}
}

func (f *fields) number(tag byte, otherwise uint64) uint64 {
	if f[tag] == nil {
		return otherwise
	}
	return wholeNumber(f[tag])
}

// metadata is what goes with a frame: fields by their tags, headers and trailers.
type metadata struct {
	fields
	headers, trailers []Header
	details           [][]byte
}

func readMetadata(data []byte) (found metadata) {
	r, into := reader{data}, &found.headers
	for len(r.data) > 0 {
		tag, name := r.byte(), ""
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
			found.put(tag, value, tag == 6 || tag == 15 || tag > 21)
		}
	}
	return found
}

// putDepends says what an answer was made of, in at most so many bytes: every key, or else the sources, as any key of
// theirs may be one of it, or else that it cannot be told; the answer is not kept then.
func putDepends(out []byte, depends [][]string, room int) []byte {
	for _, parts := range []int{2, 1} {
		if said, fits := madeOf(depends, parts, room); fits {
			return append(out, said...)
		}
	}
	return putField(out, 15, "")
}

func madeOf(depends [][]string, parts, room int) (out []byte, fits bool) {
	seen := map[string]bool{}
	for _, named := range depends {
		var value []byte
		for _, part := range named[:min(parts, len(named))] {
			value = putString(value, part)
		}
		if seen[string(value)] {
			continue
		}
		seen[string(value)] = true
		if out = putField(out, 15, value); len(out) > room {
			return nil, false
		}
	}
	return out, true
}

// cut is the beginning of a text in at most so many bytes; what is not UTF-8 is replaced, as it could not be sent.
func cut(text string, size int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for size < len(text) && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:min(len(text), size)]
}

// putError says why a call failed, but for headers.
func putError(out []byte, failed *Error) []byte {
	code := uint64(2)
	if number := slices.Index(codes, failed.Code); number > 0 {
		code = uint64(number)
	}
	out = putNumber(out, 8, code)
	if failed.Message != "" {
		out = putField(out, 9, cut(failed.Message, 1024))
	}
	for _, detail := range failed.Details {
		name := detail.Type[strings.LastIndexByte(detail.Type, '/')+1:] // The protocol has no URLs.
		out = putField(out, 10, append(putString(nil, strings.ToValidUTF8(name, "")), detail.Value...))
	}
	if failed.Outcome > 0 {
		out = putNumber(out, 11, uint64(failed.Outcome))
	}
	return out
}

func readError(said metadata) *Error {
	failed := &Error{Code: Unknown, Message: string(said.fields[9]), Headers: said.headers, Trailers: said.trailers,
		Outcome: int(said.number(11, 0))}
	code := said.number(8, 0)
	must(code > 0, rMalformed, "an error without a code")
	if code < uint64(len(codes)) {
		failed.Code = codes[code]
	}
	for _, detail := range said.details {
		r := reader{detail}
		failed.Details = append(failed.Details, Detail{string(r.string()), r.data})
	}
	return failed
}
