package parse_test

import (
	"slices"
	"strings"
	"testing"

	"titan.test/shockwave/parse"
)

func parsed(t *testing.T, fields string) *parse.Head {
	t.Helper()
	h, _, err := parse.Parse([]byte("GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestFieldsAreFoundInAnyCase(t *testing.T) {
	h := parsed(t, "X-One: 1\r\nACCEPT: first\r\nx-one: 2\r\nAccept:\tsecond \r\nEmpty:\r\n")
	for name, want := range map[string]string{"x-ONE": "1", "accept": "first", "empty": "", "host": "a"} {
		if value, ok := h.Lookup(name); !ok || string(value) != want {
			t.Errorf("%s: %q, %v", name, value, ok)
		}
	}
	if value, ok := h.Lookup("X-Two"); ok || value != nil {
		t.Errorf("X-Two: %q", value)
	}
	var values []string
	for value := range h.Values("accept") {
		values = append(values, string(value))
	}
	if !slices.Equal(values, []string{"first", "second"}) {
		t.Errorf("accept: %q", values)
	}
	if h.Len() != 6 || string(h.Name(2)) != "ACCEPT" || string(h.Value(2)) != "first" {
		t.Errorf("%d fields, %s: %s", h.Len(), h.Name(2), h.Value(2))
	}
}

func TestKnownFieldsAreFoundById(t *testing.T) {
	for id := parse.FieldUnknown + 1; id.String() != ""; id++ {
		for _, name := range []string{id.String(), strings.ToLower(id.String()), strings.ToUpper(id.String())} {
			if got := parse.FieldIDOf([]byte(name)); got != id {
				t.Errorf("%s is %v", name, got)
			}
		}
		if got := parse.FieldIDOf([]byte(id.String() + "x")); got != parse.FieldUnknown {
			t.Errorf("%vx is %v", id, got)
		}
	}
	for _, name := range []string{"", "a", "te\r", "Hos\x14", "hosu", "X-Unknown"} {
		if got := parse.FieldIDOf([]byte(name)); got != parse.FieldUnknown {
			t.Errorf("%q is %v", name, got)
		}
	}
	h := parsed(t, "accept: first\r\nAccept: second\r\nX-Unknown: 1\r\n")
	if value, ok := h.Known(parse.FieldAccept); !ok || string(value) != "first" {
		t.Errorf("Accept: %q, %v", value, ok)
	}
	for _, id := range []parse.FieldID{parse.FieldCookie, parse.FieldUnknown, 255} {
		if value, ok := h.Known(id); ok {
			t.Errorf("%v: %q", id, value)
		}
	}
}

// The index by id is that of the last head.
func TestKnownFieldsAreThoseOfTheLastHead(t *testing.T) {
	var p parse.Parser
	p.Init(parse.Limits{})
	for _, want := range []string{"1", "", "2"} {
		field := ""
		if want != "" {
			field = "Cookie: " + want + "\r\n"
		}
		if _, err := p.Parse([]byte("GET / HTTP/1.1\r\nHost: a\r\n"+field+"\r\n"), 0); err != nil {
			t.Fatal(err)
		}
		if value, _ := p.Head().Known(parse.FieldCookie); string(value) != want {
			t.Errorf("%q, want %q", value, want)
		}
	}
}

// Eight bytes of a value are judged at once: each byte at each place, beside each of its neighbours' kinds.
func TestEveryByteOfAValueToSend(t *testing.T) {
	for _, around := range []string{"aaaaaaaaaaaaaaaa", "\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\t\t\t\t\t\t\t\t\t\t"} {
		for c := range 256 {
			for at := range len(around) + 1 {
				value := around[:at] + string([]byte{byte(c)}) + around[at:]
				if want := c == '\t' || c >= ' ' && c != 0x7f; parse.ValidValue(value) != want {
					t.Fatalf("value %q: %v", value, !want)
				}
			}
		}
	}
}

func TestNamesAndValuesToSend(t *testing.T) {
	for name, want := range map[string]bool{
		"X-Name": true, "a": true, "!#$%&'*+-.^_`|~": true, "": false, "a b": false, "a:": false, "a\r": false, "\u00e9": false,
	} {
		if parse.ValidName(name) != want {
			t.Errorf("name %q: %v", name, !want)
		}
	}
	for value, want := range map[string]bool{
		"": true, "a b\tc": true, "\u00e9": true, " a": true, "a ": true, "\t": true,
		"a\rb": false, "a\nb": false, "a\x00b": false, "a\x7fb": false, "\x01": false,
	} {
		if parse.ValidValue(value) != want {
			t.Errorf("value %q: %v", value, !want)
		}
	}
}
