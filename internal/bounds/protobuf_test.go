package bounds

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// messages returns messages in each other, each behind a field and in front of another, by
// a way to write numbers.
func messages(levels int, number func(uint64) []byte, before, behind []byte) []byte {
	parts := [][]byte{}
	size := 0
	for range levels {
		head := slices.Concat(before, number(28<<3|2), number(uint64(size)))
		parts = append(parts, head)
		size += len(head) + len(behind)
	}
	slices.Reverse(parts)
	return append(slices.Concat(parts...), slices.Repeat(behind, levels)...)
}

func TestProtobuf(t *testing.T) {
	usual := func(n uint64) []byte { return binary.AppendUvarint(nil, n) }
	// Of the last of ten bytes, decoders look at one bit.
	long := func(n uint64) []byte {
		b := []byte{}
		for range 9 {
			b, n = append(b, byte(n)|0x80), n>>7
		}
		return append(b, byte(n)|0x7e)
	}
	aGroup, aString := []byte{1<<3 | 3, 2 << 3, 0xff, 0x01, 1<<3 | 4}, []byte("\x0a\x03\xff\xff\xff")
	fixed := []byte("\x09--------\x0d----")
	for name, tc := range map[string]struct {
		data    []byte
		message string
	}{
		"nothing":                     {nil, ""},
		"nested":                      {messages(500, usual, nil, nil), ""},
		"nested too deep":             {messages(501, usual, nil, nil), "more than 250 levels"},
		"behind other fields":         {messages(501, usual, slices.Concat(aGroup, aString, fixed), nil), "levels"},
		"in front of a mistake":       {messages(501, usual, nil, []byte{7}), "levels"},
		"numbers that are too long":   {messages(501, long, nil, nil), "levels"},
		"behind a mistake":            {messages(501, usual, []byte{7}, nil), ""},
		"behind what has no end":      {messages(501, usual, []byte("\x0a\xff\x01"), nil), ""},
		"behind a number with no end": {messages(501, usual, []byte("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), nil), ""},
		"behind a tag with no end":    {slices.Repeat([]byte{0xff}, 11), ""},
		"a tag alone":                 {[]byte{2}, ""},
		"half a number":               {[]byte{1, 0}, ""},
		"text":                        {[]byte(strings.Repeat("\n", 3<<20)), ""},
	} {
		t.Run(name, func(t *testing.T) { checkMessage(t, Protobuf(tc.data), tc.message) })
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Args: []string{"a"}}}}}
	pod.CreationTimestamp.Time = time.Unix(1, 0)
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if Protobuf(data) != nil || !deeper(data, 2) || deeper(data, 3) {
		t.Error("the container of a pod is not at the third level")
	}
}

// deeper reports whether a message has more than some levels.
func deeper(message []byte, levels int) bool {
	return payloads(message, levels, func(uint64, []byte) error { return nil }) != nil
}

// TestDecodersCountNumbersAlike checks that decoders read the numbers of TestProtobuf.
func TestDecodersCountNumbersAlike(t *testing.T) {
	tag := []byte{0xe2, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7e}
	var s apiextensionsv1.JSONSchemaProps
	if err := s.Unmarshal(append(tag, 0)); err != nil || s.Not == nil {
		t.Errorf("%v, %v", s, err)
	}
	if deeper(append(tag, 0), 1) || !deeper(append(tag, 0), 0) {
		t.Error("there is not one level")
	}
}
