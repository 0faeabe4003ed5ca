package compare

import (
	"bufio"
	"slices"
	"strings"
	"testing"
)

// peerRefusals are the bodies with which the peers refuse a request, by status.
var peerRefusals = map[string]map[int][]string{
	"net/http": {
		400: {
			"400 Bad Request",
			"400 Bad Request: invalid header name",
			"400 Bad Request: malformed Host header",
			"400 Bad Request: missing required Host header",
		},
		417: {""},
		431: {"431 Request Header Fields Too Large"},
		501: {"Unsupported transfer encoding"},
		505: {"505 HTTP Version Not Supported: unsupported protocol version"},
	},
	"fasthttp": {
		400: {"Error when parsing request"},
		431: {"Too big request header"},
	},
}

// refuses says whether an engine responds with the body that is its own for a refusal. Shockwave's is for the row alone.
func refuses(engine string, row row, status int, body string) bool {
	if engine == "Shockwave" {
		return status >= 400 && row.says != "" && body == row.says+"\n"
	}
	return slices.Contains(peerRefusals[engine][status], body)
}

func TestOtherBodiesOfRefusalsAreShown(t *testing.T) {
	row := row{request: get("/"), says: "no"}
	for _, c := range []struct{ engine, body, want string }{
		{"Shockwave", "no\n", `400`},
		{"Shockwave", "yes\n", `400 "yes\n"`},
		{"Shockwave", "no\n<script>", `400 "no\n<script>"`},
		{"net/http", "400 Bad Request", `400`},
		{"net/http", "400 Bad Request: injected", `400 "400 Bad Request: injected"`},
		{"Shockwave", "", `400 ""`},
		{"fasthttp", "Error when parsing request", `400`},
		{"fasthttp", "Too big request header", `400 "Too big request header"`},
	} {
		data := "HTTP/1.0 400 Bad Request\r\n\r\n" + c.body
		got, err := answer(bufio.NewReader(strings.NewReader(data)), engine{name: c.engine}, row)
		if err != nil || got != c.want {
			t.Errorf("%s with %q: %s, %v, want %s", c.engine, c.body, got, err, c.want)
		}
	}
}
