package parse

import "errors"

// ErrIncomplete means that the bytes are the beginning of a head that is valid so
// far: more are needed.
var ErrIncomplete = errors.New("parse: more bytes are needed")

// An Error is a fault of the peer. Every fault is one static value, to be
// compared with errors.Is or ==. After one, nothing more on the connection can be
// trusted: respond with Status and close.
type Error struct {
	// Status is the status code to respond with, from 400 to 505.
	Status int
	// Reason names the fault and the section that forbids it.
	Reason string
}

// Error returns the Reason.
func (e *Error) Error() string { return e.Reason }

// The faults of a request's head, of its trailers, and of the field lines of both.
var (
	// ErrBareCR is a CR without LF.
	ErrBareCR = &Error{400, "a CR without LF (RFC 9112 section 2.2)"}
	// ErrBareLF is an LF without CR.
	ErrBareLF = &Error{400, "an LF without CR (RFC 9112 section 2.2)"}
	// ErrEmptyLines is more than one empty line before a request line.
	ErrEmptyLines = &Error{400, "more than one empty line before the request line (RFC 9112 section 2.2)"}

	// ErrMethod is a byte in the method that a token cannot contain, or a missing
	// method.
	ErrMethod = &Error{400, "the method is not a token (RFC 9112 section 3.1)"}
	// ErrMethodTooLong is a method of more than MaxMethod bytes.
	ErrMethodTooLong = &Error{501, "the method is longer than any known method (RFC 9112 section 3)"}
	// ErrNoTarget is a request line without a target.
	ErrNoTarget = &Error{400, "the request line has no target (RFC 9112 section 3)"}
	// ErrTargetByte is a byte that a target may not contain, or a fragment.
	ErrTargetByte = &Error{400, "the target contains a byte that is not allowed (RFC 9112 section 3.2)"}
	// ErrTargetForm is a target in no valid form, or in one that the method does not
	// allow.
	ErrTargetForm = &Error{400, "the target does not have a form that the method allows (RFC 9112 section 3.2)"}
	// ErrTargetAuthority is a malformed authority in the target.
	ErrTargetAuthority = &Error{400, "the authority in the target is malformed (RFC 9112 section 3.2)"}
	// ErrTargetTooLong is a target over Limits.Target.
	ErrTargetTooLong = &Error{414, "the target exceeds its limit (RFC 9112 section 3)"}
	// ErrVersion is a version that is not HTTP/ DIGIT . DIGIT, or a line without one.
	ErrVersion = &Error{400, "the version is malformed (RFC 9112 section 2.3)"}
	// ErrVersionNotServed is a major version other than 1.
	ErrVersionNotServed = &Error{505, "the major version is not 1 (RFC 9110 section 15.6.6)"}

	// ErrObsFold is a line that begins with white space: a folded value, or a hidden first line.
	ErrObsFold = &Error{400, "a field line begins with white space (RFC 9112 sections 2.2 and 5.2)"}
	// ErrEmptyFieldName is a field line that begins with its colon.
	ErrEmptyFieldName = &Error{400, "a field name is empty (RFC 9112 section 5)"}
	// ErrFieldNameByte is a byte in a field name that a token cannot contain, or a
	// line without a colon.
	ErrFieldNameByte = &Error{400, "a field name is not a token (RFC 9112 section 5)"}
	// ErrSpaceBeforeColon is white space between a field name and its colon.
	ErrSpaceBeforeColon = &Error{400, "there is white space before the colon (RFC 9112 section 5.1)"}
	// ErrValueByte is a control byte in a field value.
	ErrValueByte = &Error{400, "a field value contains a control byte (RFC 9110 section 5.5)"}
	// ErrHeadTooLong is a head over Limits.Head.
	ErrHeadTooLong = &Error{431, "the head exceeds its limit (RFC 6585 section 5)"}
	// ErrTooManyFields is more field lines than Limits.Fields, in a head or in a trailer section.
	ErrTooManyFields = &Error{431, "there are too many fields (RFC 6585 section 5)"}

	// ErrNoHost is an HTTP/1.1 request without Host.
	ErrNoHost = &Error{400, "the Host field is missing (RFC 9112 section 3.2)"}
	// ErrSecondHost is more than one Host, equal or not.
	ErrSecondHost = &Error{400, "there is more than one Host field (RFC 9112 section 3.2)"}
	// ErrHostMalformed is a Host that is not an authority.
	ErrHostMalformed = &Error{400, "the Host field is malformed (RFC 9110 section 7.2)"}
	// ErrHostDiffers is a Host that differs from the authority in the target.
	ErrHostDiffers = &Error{400, "the Host field differs from the target's authority (RFC 9112 section 3.2.2)"}
	// ErrConnectionOption is a Connection member that is not a token.
	ErrConnectionOption = &Error{400, "a Connection member is not a token (RFC 9110 section 7.6.1)"}
	// ErrExpectation is an expectation other than 100-continue.
	ErrExpectation = &Error{417, "the expectation is not 100-continue (RFC 9110 section 10.1.1)"}

	// ErrLengthAndCoding is Content-Length together with Transfer-Encoding.
	ErrLengthAndCoding = &Error{400, "Content-Length beside Transfer-Encoding (RFC 9112 section 6.3)"}
	// ErrDuplicateContentLength is a second Content-Length line, equal or not.
	ErrDuplicateContentLength = &Error{400, "there is more than one Content-Length (RFC 9112 section 6.3)"}
	// ErrContentLength is a Content-Length that is not a number of 1 to 19 digits
	// below 2^63.
	ErrContentLength = &Error{400, "the Content-Length is malformed (RFC 9110 section 8.6)"}
	// ErrCodingInHTTP10 is Transfer-Encoding in an HTTP/1.0 message.
	ErrCodingInHTTP10 = &Error{400, "Transfer-Encoding in HTTP/1.0 (RFC 9112 section 6.1)"}
	// ErrCodingMalformed is a Transfer-Encoding member that is not a token, such as
	// an empty one.
	ErrCodingMalformed = &Error{400, "the Transfer-Encoding list is malformed (RFC 9112 section 6.1)"}
	// ErrChunkedTwice is the chunked coding applied twice.
	ErrChunkedTwice = &Error{400, "the chunked coding is applied twice (RFC 9112 section 6.1)"}
	// ErrChunkedNotLast is a coding after chunked.
	ErrChunkedNotLast = &Error{400, "the chunked coding is not the last (RFC 9112 section 6.1)"}
	// ErrCodingUnknown is a transfer coding other than chunked.
	ErrCodingUnknown = &Error{501, "a transfer coding is not supported (RFC 9112 section 6.1)"}
	// ErrConnectWithBody is a body on CONNECT: it could also belong to the tunnel.
	ErrConnectWithBody = &Error{400, "CONNECT with a body (RFC 9110 section 9.3.6)"}
	// ErrBodyTooLong is a Content-Length over Limits.Body.
	ErrBodyTooLong = &Error{413, "the body exceeds its limit (RFC 9110 section 15.5.14)"}

	// ErrTrailerForbidden is a trailer field that is allowed only in a head.
	ErrTrailerForbidden = &Error{400, "a field is not allowed in trailers (RFC 9110 section 6.5.1)"}
	// ErrTrailersTooLong is a trailer section over Limits.Trailers.
	ErrTrailersTooLong = &Error{431, "the trailers exceed their limit (RFC 6585 section 5)"}
)
