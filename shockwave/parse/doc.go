// Package parse reads the head of an HTTP/1.1 request (RFC 9112): bytes in,
// offsets out. It does no I/O, reads no clock, starts no goroutine and, once a
// Parser has seen its longest head, does not allocate.
//
// A [Parser] reads one head after another from a buffer that its owner fills. Nothing is copied: what a
// [Head] returns aliases the buffer and is valid as long as those bytes stay where they are.
//
// What is refused, with which status and in which order of faults is decided in conformance/http1.
package parse
