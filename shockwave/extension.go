package shockwave

import "titan.test/shockwave/parse"

// An extension is where a chunk line stands behind its first ';'. Extensions mean nothing here, but they have
// to be well-formed (RFC 9112 section 7.1.1): what one recipient skips and another takes for the end of the
// line is how bodies are smuggled.
type extension uint8

const (
	extNone    extension = iota // the grammar has no such octet there
	extBegin                    // a name comes
	extName                     // in a name
	extNamed                    // in white space behind a name: '=' or ';' comes
	extEquals                   // a value comes
	extValue                    // in a value that is a token
	extQuoted                   // in a value between quotes
	extEscaped                  // behind a backslash between quotes
	extClosed                   // behind the closing quote
	extValued                   // in white space behind a value: ';' comes
)

// Kinds of octets, as the grammar of extensions has them.
const (
	octetControl = iota
	octetOther   // visible or obs-text, and none of those below
	octetToken
	octetBlank
	octetEquals
	octetSemicolon
	octetQuote
	octetBackslash
)

// extensions has what an octet of each kind leads to.
var extensions = [...][8]extension{
	extBegin: {octetToken: extName, octetBlank: extBegin},
	extName:  {octetToken: extName, octetBlank: extNamed, octetEquals: extEquals, octetSemicolon: extBegin},
	extNamed: {octetBlank: extNamed, octetEquals: extEquals, octetSemicolon: extBegin},

	extEquals: {octetToken: extValue, octetBlank: extEquals, octetQuote: extQuoted},
	extValue:  {octetToken: extValue, octetBlank: extValued, octetSemicolon: extBegin},
	extQuoted: {
		octetOther: extQuoted, octetToken: extQuoted, octetBlank: extQuoted, octetEquals: extQuoted,
		octetSemicolon: extQuoted, octetQuote: extClosed, octetBackslash: extEscaped,
	},
	extEscaped: {
		octetOther: extQuoted, octetToken: extQuoted, octetBlank: extQuoted, octetEquals: extQuoted,
		octetSemicolon: extQuoted, octetQuote: extQuoted, octetBackslash: extQuoted,
	},
	extClosed: {octetBlank: extValued, octetSemicolon: extBegin},
	extValued: {octetBlank: extValued, octetSemicolon: extBegin},
}

func (e extension) after(c byte) extension { return extensions[e][octetKinds[c]] }

// mayEnd says whether the line may end here.
func (e extension) mayEnd() bool { return e == extName || e == extValue || e == extClosed }

var octetKinds = func() (kinds [256]uint8) {
	for c := range kinds {
		switch text := string([]byte{byte(c)}); {
		case parse.ValidName(text):
			kinds[c] = octetToken
		case parse.ValidValue(text):
			kinds[c] = octetOther
		}
	}
	kinds[' '], kinds['\t'], kinds['='], kinds[';'] = octetBlank, octetBlank, octetEquals, octetSemicolon
	kinds['"'], kinds['\\'] = octetQuote, octetBackslash
	return kinds
}()
