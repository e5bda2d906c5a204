package tidewire

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
)

var escape = strings.NewReplacer("%", "%25", "/", "%2F")

// KeyText is the key of a source as text, the same in each language: its parts joined by a slash. Equal values have
// equal text, of whatever type. Parts are text, numbers ([json.Number] among them), bools, slices and arrays of
// bytes, nil, types made of these, and pointers to them, which are what they point to. It panics for everything else:
// NaN, infinities, and floats of 32 bits, whose digits are others in JSON (0.1) than in protobuf (0.10000000149011612).
func KeyText(parts ...any) string {
	texts := make([]string, len(parts))
	for at, part := range parts {
		texts[at] = partText(part)
	}
	return strings.Join(texts, "/")
}

func partText(part any) string {
	switch part := part.(type) {
	case nil:
		return "%_"
	case string:
		return textOf(part)
	case []byte:
		return hex.EncodeToString(part)
	case *big.Int:
		if part != nil {
			return part.String()
		}
	case json.Number:
		return numberText(part)
	case *json.Number:
		if part != nil {
			return numberText(*part)
		}
	}
	value := reflect.ValueOf(part)
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return "%_"
		}
		value = value.Elem()
	}
	switch {
	case value.Kind() == reflect.String:
		return textOf(value.String())
	case value.Kind() == reflect.Bool:
		return strconv.FormatBool(value.Bool())
	case value.CanInt():
		return strconv.FormatInt(value.Int(), 10)
	case value.CanUint():
		return strconv.FormatUint(value.Uint(), 10)
	case value.Kind() == reflect.Float64:
		return floatText(value.Float())
	case value.Kind() == reflect.Float32:
		panic("a float32 is no part of a key, as its digits are others in JSON than in protobuf; convert it")
	case isBytes(value):
		return hex.EncodeToString(bytesOf(value))
	}
	panic(fmt.Sprintf("a %T is no part of a key; text, numbers, bytes, a bool or nil are", part))
}

func isBytes(value reflect.Value) bool {
	kind := value.Kind()
	return (kind == reflect.Slice || kind == reflect.Array) && value.Type().Elem().Kind() == reflect.Uint8
}

func bytesOf(value reflect.Value) []byte {
	data := make([]byte, value.Len())
	for at := range data {
		data[at] = byte(value.Index(at).Uint())
	}
	return data
}

func textOf(text string) string { return unicodeOf(escape.Replace(text)) }

// Every byte that is of no character is U+FFFD.
func unicodeOf(text string) string {
	return strings.Map(func(character rune) rune { return character }, text)
}

// A number as JSON has it, however it is written there.
func numberText(number json.Number) string {
	if whole, isWhole := new(big.Int).SetString(string(number), 10); isWhole {
		return whole.String()
	}
	float, err := number.Float64()
	if err != nil {
		panic(fmt.Sprintf("%q is no number and no part of a key", string(number)))
	}
	return floatText(float)
}

// Whole numbers as integers are; else the shortest digits that read back, without an exponent.
func floatText(float float64) string {
	switch {
	case math.IsNaN(float) || math.IsInf(float, 0):
		panic(fmt.Sprintf("%v is no part of a key; text, numbers, bytes, a bool or nil are", float))
	case float == math.Trunc(float):
		return strconv.FormatFloat(float+0, 'f', 0, 64) // Plus zero: -0 is 0.
	}
	return strconv.FormatFloat(float, 'f', -1, 64)
}
