package main

import "testing"

func TestInputsHaveTheSizesTheyAreNamedFor(t *testing.T) {
	sizes := map[*input]int{inputGet: 78, inputBrowser: 890}
	for in, size := range sizes {
		if len(in.data) != size {
			t.Errorf("%s: %d bytes, want %d", in.name, len(in.data), size)
		}
	}
	if len(inputPost.body) != 25 {
		t.Errorf("post: a body of %d bytes, want 25", len(inputPost.body))
	}
	if len(inputFields.fields) != 10 || len(inputMany.fields) != 64 {
		t.Errorf("%d and %d fields, want 10 and 64", len(inputFields.fields), len(inputMany.fields))
	}
}

func TestCycledInputsAskForBothResponsesWithRequestsOfOneLength(t *testing.T) {
	for _, c := range cycled {
		json := c.in.to(c.json)
		if len(json.data) != len(c.in.data) {
			t.Errorf("%s: %d bytes for JSON, %d for text", c.in.name, len(json.data), len(c.in.data))
		}
		if a, _ := answerFor(c.in.target); a != textAnswer {
			t.Errorf("%s: %s is not answered with text", c.in.name, c.in.target)
		}
		if a, _ := answerFor(json.target); a != jsonAnswer {
			t.Errorf("%s: %s is not answered with JSON", c.in.name, json.target)
		}
	}
}
