package shockwave

import "unsafe"

// view shows bytes as a string without copying them, for calls that look at it
// and keep nothing. The field checks of package parse take strings; to copy a long
// value for each would be the one allocation of a request.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf shows a string as bytes without copying it, for calls that only read
// them: a response's body may be long.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
