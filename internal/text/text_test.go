package text

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCut(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		most int
		want string
	}{
		"a short text":               {"abc", 3, "abc"},
		"a long text":                {"abcd", 3, "abc"},
		"within a character":         {"aéé", 4, "aé"},
		"behind a character":         {"aéé", 3, "aé"},
		"what is no text":            {"a\xff\xff\xffb", 3, "a"},
		"what is no text, but short": {"\xff", 3, "\xff"},
		"nothing":                    {"é", 1, ""},
	} {
		if got := Cut(tc.text, tc.most); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// FuzzJSON checks that no text is longer in JSON than it is said to be, that it is little
// shorter, and that a text is cut where it would be too long.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{"", "abc", "<>&\"\\", "\x00\n\x7f", "é漢😀", "\u2028\u2029\ufffd", "a\xffb\xe2\x80", "\xe2\x80\xa8"} {
		f.Add(seed, 7)
	}
	f.Fuzz(func(t *testing.T, s string, most int) {
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		size := JSONLen(s)
		if short := strings.Count(string(written), `\`) * len(`u000`); size < len(written) || size > len(written)+short {
			t.Errorf("%q has %d bytes in JSON, not %d", s, len(written), size)
		}
		if size != JSONLen([]byte(s)) {
			t.Errorf("%q has %d bytes, and %d as bytes", s, size, JSONLen([]byte(s)))
		}
		most = max(0, min(most, 1<<20))
		cut := CutJSON(s, most)
		if (cut != s) != (size-2 > most) || JSONLen(cut)-2 > most {
			t.Errorf("%q is %q in %d bytes of %d", s, cut, most, size-2)
		}
		if cut != s && (!utf8.ValidString(cut) || utf8.ValidString(s) && !strings.HasPrefix(s, cut)) {
			t.Errorf("%q becomes %q", s, cut)
		}
	})
}
