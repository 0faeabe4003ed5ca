package parse

import "iter"

// Fields are the field lines of a head or a trailer section, in the order received. Everything returned
// aliases the buffer that was parsed.
type Fields struct {
	b []byte
	// lines holds, behind an entry for what precedes the first field line, one entry for each of them.
	lines []line
	// first has, once Known was asked, the number of the first line with each id, counted from 1.
	first   [numFieldIDs]uint16
	indexed bool
}

// A line is where a field line has its colon and its CR, as offsets into the buffer. It begins two bytes
// behind the CR of the line before.
type line struct{ colon, end uint32 }

func (f *Fields) move(by int) {
	for i := range f.lines {
		f.lines[i].colon += uint32(by)
		f.lines[i].end += uint32(by)
	}
}

// Len returns the number of field lines.
func (f *Fields) Len() int { return max(len(f.lines)-1, 0) }

// Name returns the name of line i as received.
func (f *Fields) Name(i int) []byte {
	return f.b[f.lines[i].end+2 : f.lines[i+1].colon]
}

// Value returns the value of line i without white space around it.
func (f *Fields) Value(i int) []byte {
	return f.value(i).of(f.b)
}

func (f *Fields) value(i int) span {
	l := f.lines[i+1]
	return span{l.colon + 1, l.end}.trimmed(f.b)
}

// All ranges over the lines as pairs of name and value.
func (f *Fields) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := range f.Len() {
			if !yield(f.Name(i), f.Value(i)) {
				return
			}
		}
	}
}

// Known returns the value of the first line with this id. The first call looks at all names, the others
// at none.
func (f *Fields) Known(id FieldID) (value []byte, ok bool) {
	if !f.indexed {
		f.index()
	}
	if int(id) >= len(f.first) || f.first[id] == 0 {
		return nil, false
	}
	return f.Value(int(f.first[id]) - 1), true
}

func (f *Fields) index() {
	f.first = [numFieldIDs]uint16{}
	for i := f.Len() - 1; i >= 0; i-- {
		f.first[FieldIDOf(f.Name(i))] = uint16(i) + 1
	}
	f.first[FieldUnknown] = 0
	f.indexed = true
}

// Lookup returns the value of the first line with this name in any case.
func (f *Fields) Lookup(name string) (value []byte, ok bool) {
	i := f.Next(name, 0)
	if i < 0 {
		return nil, false
	}
	return f.Value(i), true
}

// Next returns the index of the first line from line i on that has this name in any case, or -1. It finds
// the lines of a name that occurs more than once.
func (f *Fields) Next(name string, i int) int {
	for ; i < f.Len(); i++ {
		l := f.lines[i+1]
		if int(l.colon-f.lines[i].end)-2 == len(name) && equalFold(f.Name(i), name) {
			return i
		}
	}
	return -1
}

// Values ranges over the values of all lines with this name in any case.
func (f *Fields) Values(name string) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		for i := f.Next(name, 0); i >= 0; i = f.Next(name, i+1) {
			if !yield(f.Value(i)) {
				return
			}
		}
	}
}
