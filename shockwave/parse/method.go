package parse

// A Method names a well-known method, for comparisons without text.
type Method uint8

// The well-known methods. MethodOther stands for every other token.
const (
	MethodOther Method = iota
	MethodGet
	MethodHead
	MethodPost
	MethodPut
	MethodDelete
	MethodConnect
	MethodOptions
	MethodTrace
	MethodPatch

	numMethods = iota
)

var methodNames = [numMethods]string{
	MethodOther:   "",
	MethodGet:     "GET",
	MethodHead:    "HEAD",
	MethodPost:    "POST",
	MethodPut:     "PUT",
	MethodDelete:  "DELETE",
	MethodConnect: "CONNECT",
	MethodOptions: "OPTIONS",
	MethodTrace:   "TRACE",
	MethodPatch:   "PATCH",
}

// String returns the method as sent; "" for MethodOther.
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return ""
}

// methodOf returns the id of a method; methods are case-sensitive (RFC 9110 section 9.1).
func methodOf(text []byte) Method {
	switch string(text) {
	case "GET":
		return MethodGet
	case "HEAD":
		return MethodHead
	case "POST":
		return MethodPost
	case "PUT":
		return MethodPut
	case "DELETE":
		return MethodDelete
	case "CONNECT":
		return MethodConnect
	case "OPTIONS":
		return MethodOptions
	case "TRACE":
		return MethodTrace
	case "PATCH":
		return MethodPatch
	}
	return MethodOther
}
