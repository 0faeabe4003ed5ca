package shockwave

import "titan.test/shockwave/parse"

// An extension is where a chunk line stands behind its first ';'. Extensions mean nothing here, but they have
// to be well-formed (RFC 9112 section 7.1.1): what one recipient skips and another takes for the end of the
// line is how bodies are smuggled.
type extension uint8

const (
	extNone    extension = iota // the grammar has no such byte there
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

// Kinds of bytes, as the grammar of extensions has them.
const (
	byteControl = iota
	byteOther   // visible or obs-text, and none of those below
	byteToken
	byteBlank
	byteEquals
	byteSemicolon
	byteQuote
	byteBackslash
)

// extensions has what a byte of each kind leads to.
var extensions = [...][8]extension{
	extBegin: {byteToken: extName, byteBlank: extBegin},
	extName:  {byteToken: extName, byteBlank: extNamed, byteEquals: extEquals, byteSemicolon: extBegin},
	extNamed: {byteBlank: extNamed, byteEquals: extEquals, byteSemicolon: extBegin},

	extEquals: {byteToken: extValue, byteBlank: extEquals, byteQuote: extQuoted},
	extValue:  {byteToken: extValue, byteBlank: extValued, byteSemicolon: extBegin},
	extQuoted: {
		byteOther: extQuoted, byteToken: extQuoted, byteBlank: extQuoted, byteEquals: extQuoted,
		byteSemicolon: extQuoted, byteQuote: extClosed, byteBackslash: extEscaped,
	},
	extEscaped: {
		byteOther: extQuoted, byteToken: extQuoted, byteBlank: extQuoted, byteEquals: extQuoted,
		byteSemicolon: extQuoted, byteQuote: extQuoted, byteBackslash: extQuoted,
	},
	extClosed: {byteBlank: extValued, byteSemicolon: extBegin},
	extValued: {byteBlank: extValued, byteSemicolon: extBegin},
}

func (e extension) after(c byte) extension { return extensions[e][byteKinds[c]] }

// mayEnd reports whether the line may end here.
func (e extension) mayEnd() bool { return e == extName || e == extValue || e == extClosed }

var byteKinds = func() (kinds [256]uint8) {
	for c := range kinds {
		switch text := string([]byte{byte(c)}); {
		case parse.ValidName(text):
			kinds[c] = byteToken
		case parse.ValidValue(text):
			kinds[c] = byteOther
		}
	}
	kinds[' '], kinds['\t'], kinds['='], kinds[';'] = byteBlank, byteBlank, byteEquals, byteSemicolon
	kinds['"'], kinds['\\'] = byteQuote, byteBackslash
	return kinds
}()
