package parse_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"titan.test/shockwave/parse"
)

// naive judges the head at the beginning of in, byte for byte and with no regard to speed: the twin that
// the parser is compared with. It returns what describe returns of the parser's.
func naive(in []byte, l parse.Limits) string {
	switch {
	case len(in) == 0 || string(in) == "\r":
		return "incomplete"
	case in[0] == '\r' && in[1] != '\n':
		return "400"
	case in[0] == '\r':
		in = in[2:]
	}
	text := in[:min(len(in), l.Head)]
	status, lines, rest := naiveLines(text, l)
	switch {
	case status == 0 && len(in) > l.Head:
		return "431"
	case status == 0:
		return "incomplete"
	case status != 200:
		return strconv.Itoa(status)
	}
	return naiveHead(lines, len(text)-len(rest), l)
}

// naiveLines splits a head into its lines; the status is 0 while it is unfinished and 200 when it is not.
func naiveLines(text []byte, l parse.Limits) (status int, lines []string, rest []byte) {
	for {
		line, behind, whole := bytes.Cut(text, []byte("\n"))
		if len(lines) == 0 {
			status = naiveRequestLine(line, whole, l)
		} else {
			status = naiveFieldLine(line, whole)
		}
		switch {
		case status != 0:
			return status, nil, nil
		case !whole:
			return 0, nil, nil
		case len(line) == 1:
			return 200, lines, behind
		case len(lines) == l.Fields+1:
			return 431, nil, nil
		}
		lines = append(lines, string(line[:len(line)-1]))
		text = behind
	}
}

const tokens = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

var (
	isToken     = regexp.MustCompile("^[" + regexp.QuoteMeta(tokens) + "]+$").MatchString
	isVersion   = regexp.MustCompile(`^HTTP/\d\.\d$`).MatchString
	isAuthority = regexp.MustCompile(`^((?:[A-Za-z0-9\-._~!$&'()*+;=]|%[0-9A-Fa-f]{2})+` +
		`|\[[0-9A-Fa-f:.]+\])(?::(\d{0,5}))?$`).FindStringSubmatch
	isAbsolute = regexp.MustCompile(`^(?i:https?)://([^/?]*)((?:[/?].*)?)$`).FindStringSubmatch
)

// naiveRequestLine returns the status of the fault that comes first, 0 without any; line is without LF.
func naiveRequestLine(line []byte, whole bool, l parse.Limits) int {
	n := 0
	for ; n < len(line) && strings.IndexByte(tokens, line[n]) >= 0; n++ {
		if n == 23 {
			return 501
		}
	}
	if n == len(line) {
		return badIf(whole)
	}
	if line[n] != ' ' || n == 0 {
		return 400
	}
	method, line := string(line[:n]), line[n+1:]
	n = 0
	for ; n < len(line) && line[n] > ' ' && line[n] < 0x7f && line[n] != '#'; n++ {
		if n == l.Target {
			return 414
		}
	}
	if n == len(line) {
		return badIf(whole)
	}
	if line[n] != ' ' || n == 0 {
		return 400
	}
	target, line := string(line[:n]), line[n+1:]
	if !whole {
		like := "HTTP/0.0\r"
		shape := bytes.Map(func(c rune) rune {
			if c >= '0' && c <= '9' {
				return '0'
			}
			return c
		}, line)
		return badIf(!strings.HasPrefix(like, string(shape)))
	}
	version, isLine := bytes.CutSuffix(line, []byte("\r"))
	if !isLine || !isVersion(string(version)) {
		return 400
	}
	if version[5] != '1' {
		return 505
	}
	return badIf(naiveForm(method, target) == "")
}

func badIf(bad bool) int {
	if bad {
		return 400
	}
	return 0
}

func naiveForm(method, target string) string {
	absolute := isAbsolute(target)
	switch {
	case method == "CONNECT":
		if host, port := naiveAuthority(target); host != "" && port >= 0 {
			return "connect"
		}
	case target[0] == '/':
		return "origin"
	case target == "*" && method == "OPTIONS":
		return "asterisk"
	case absolute == nil:
	case absolute[2] == "" && method == "OPTIONS":
		if host, _ := naiveAuthority(absolute[1]); host != "" {
			return "asterisk"
		}
	default:
		if host, _ := naiveAuthority(absolute[1]); host != "" {
			return "absolute"
		}
	}
	return ""
}

// naiveAuthority returns an empty host when the text is no authority, and -1 for no port.
func naiveAuthority(text string) (host string, port int) {
	parts := isAuthority(text)
	if parts == nil {
		return "", -1
	}
	if strings.HasPrefix(parts[1], "[") {
		address, err := netip.ParseAddr(strings.Trim(parts[1], "[]"))
		if err != nil || !address.Is6() {
			return "", -1
		}
	}
	if parts[2] == "" {
		return parts[1], -1
	}
	port, _ = strconv.Atoi(parts[2])
	if port > 65535 {
		return "", -1
	}
	return parts[1], port
}

func naiveFieldLine(line []byte, whole bool) int {
	n := 0
	for n < len(line) && strings.IndexByte(tokens, line[n]) >= 0 {
		n++
	}
	switch {
	case n == 0 && len(line) > 0 && line[0] == '\r':
		return badIf(len(line) > 1)
	case n == len(line):
		return badIf(whole)
	case n == 0 || line[n] != ':':
		return 400
	}
	value, hasCR := bytes.CutSuffix(line[n+1:], []byte("\r"))
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return 400
		}
	}
	return badIf(whole && !hasCR)
}

// naiveHead judges a complete head.
func naiveHead(lines []string, consumed int, l parse.Limits) string {
	parts := strings.Split(lines[0], " ")
	method, target, minor := parts[0], parts[1], int(parts[2][7]-'0')
	values := map[string][]string{}
	var fields strings.Builder
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		values[lowered(name)] = append(values[lowered(name)], value)
		fmt.Fprintf(&fields, "%s: %s\n", name, value)
	}
	form := naiveForm(method, target)
	bad := naiveHost(values["host"], minor, form, target)

	length, lengths := int64(-1), values["content-length"]
	if len(lengths) > 0 {
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		bad = bad || len(lengths) > 1 || err != nil || len(lengths[0]) > 19
		length = int64(n)
	}
	codings, hasCoding := values["transfer-encoding"]
	names := strings.Split(lowered(strings.Join(codings, ",")), ",")
	for i, name := range names {
		name = strings.Trim(name, " \t")
		bad = bad || hasCoding && (!isToken(name) || name == "chunked" && i < len(names)-1)
	}
	bad = bad || hasCoding && (minor == 0 || len(lengths) > 0)
	bad = bad || method == "CONNECT" && (hasCoding || length > 0)

	var options []string
	for _, option := range strings.Split(strings.Join(values["connection"], ","), ",") {
		option = strings.Trim(option, " \t")
		bad = bad || option != "" && !isToken(option)
		options = append(options, lowered(option))
	}
	lists := func(name string) bool { return strings.Contains(","+strings.Join(options, ",")+",", ","+name+",") }

	failed := false
	for _, expectation := range values["expect"] {
		failed = failed || lowered(expectation) != "100-continue"
	}
	switch {
	case bad:
		return "400"
	case hasCoding && strings.Trim(names[0], " \t") != "chunked":
		return "501"
	case failed:
		return "417"
	case length > max(l.Body, 0):
		return "413"
	}
	keepAlive := !lists("close") && (minor > 0 || lists("keep-alive")) && method != "CONNECT"
	hasBody := hasCoding || length > 0
	expects := len(values["expect"]) > 0 && minor > 0 && hasBody
	upgrade := lists("upgrade") && len(values["upgrade"]) > 0 && minor > 0
	path, query, authority := naiveParts(form, target)
	host := ""
	if len(values["host"]) > 0 {
		host = values["host"][0]
	}
	return fmt.Sprintf("%d %s %q %s %q %q %q %q 1.%d\n%s%d %v %v %v %v", consumed, method, target, form, path, query,
		authority, host, minor, fields.String(), length, hasCoding, keepAlive, expects, upgrade)
}

// naiveHost says whether Host is at fault.
func naiveHost(hosts []string, minor int, form, target string) bool {
	if len(hosts) == 0 {
		return minor > 0
	}
	host, port := naiveAuthority(hosts[0])
	if len(hosts) > 1 || host == "" {
		return true
	}
	absolute := isAbsolute(target)
	if form == "origin" || form == "connect" || absolute == nil {
		return false
	}
	wantHost, wantPort := naiveAuthority(absolute[1])
	return port != wantPort || !strings.EqualFold(host, wantHost)
}

func naiveParts(form, target string) (path, query, authority string) {
	path = target
	if form == "connect" {
		return "", "", target
	}
	if absolute := isAbsolute(target); absolute != nil && form != "origin" {
		authority, path = absolute[1], absolute[2]
	}
	path, query, _ = strings.Cut(path, "?")
	switch {
	case form == "asterisk":
		path = "*"
	case path == "":
		path = "/"
	}
	return path, query, authority
}

// describe returns all that a head says, or the fault's status.
func describe(h *parse.Head, start, end int, err error) string {
	if fault, ok := err.(*parse.Error); ok {
		return strconv.Itoa(fault.Status)
	}
	if err != nil {
		return "incomplete"
	}
	var fields strings.Builder
	for name, value := range h.All() {
		fmt.Fprintf(&fields, "%s: %s\n", name, value)
	}
	form := map[parse.TargetForm]string{parse.Origin: "origin", parse.Absolute: "absolute",
		parse.Connect: "connect", parse.Asterisk: "asterisk"}[h.Form()]
	return fmt.Sprintf("%d %s %q %s %q %q %q %q 1.%d\n%s%d %v %v %v %v", end-start, h.Method(), h.Target(), form, h.Path(), h.RawQuery(),
		h.Authority(), h.Host(), h.Minor(), fields.String(), h.ContentLength, h.Chunked, h.KeepAlive, h.ExpectContinue, h.Upgrade)
}

// lowered folds the letters of ASCII alone; strings.ToLower makes a k of the Kelvin sign.
func lowered(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, s)
}
