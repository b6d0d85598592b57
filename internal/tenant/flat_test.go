package tenant

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFlatten(t *testing.T) {
	for _, tc := range []struct {
		name       Name
		plain      string
		flat       Flat
		irrelevant bool // there is no way back
	}{
		{name: "acme", plain: "default", flat: "acme|default"},
		{name: "acme", plain: "", flat: "", irrelevant: true},
		{name: System, plain: "default", flat: "default"},
		{name: System, plain: "acme|x", flat: "system|acme|x"},
		{name: "acme", plain: "big|x", flat: "acme|big|x"},
		{name: "", plain: "default", flat: "default", irrelevant: true},
	} {
		flat := Flatten(tc.name, tc.plain)
		if flat != tc.flat {
			t.Errorf("Flatten(%q, %q) = %q, want %q", tc.name, tc.plain, flat, tc.flat)
		}
		if n, plain := flat.Split(); !tc.irrelevant && (n != tc.name || plain != tc.plain) {
			t.Errorf("%q splits into %q, %q, want %q, %q", flat, n, plain, tc.name, tc.plain)
		}
		if n, is := flat.Tenant(); !tc.irrelevant && (n != tc.name || is == (n == System)) {
			t.Errorf("%q is of tenant %q: %v", flat, n, is)
		}
		if n, plain := flat.Split(); flat.Space() != n || flat.Plain() != plain {
			t.Errorf("%q is %q of %q, and splits into %q, %q", flat, flat.Plain(), flat.Space(), n, plain)
		}
	}
}

func TestPlainText(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		`namespaces "acme|x"`:      `namespaces "x"`,
		"acme|x and acme|y":        "x and y",
		"big-acme|x":               "big-acme|x",
		"-acme|x":                  "-acme|x",
		"aacme|x":                  "aacme|x",
		"macme|x":                  "macme|x",
		"zacme|x":                  "zacme|x",
		"0acme|x":                  "0acme|x",
		"5acme|x":                  "5acme|x",
		"9acme|x":                  "9acme|x",
		"/acme|x":                  "/x",
		":acme|x":                  ":x",
		"`acme|x":                  "`x",
		"{acme|x":                  "{x",
		"globex|x":                 "globex|x",
		"big-acme|x, acme|y|acme|": "big-acme|x, y|",

		`Post "https://h/api/v1/namespaces/acme%7Cx/pods": EOF`: `Post "https://h/api/v1/namespaces/x/pods": EOF`,
		"https://h/x?fieldSelector=metadata.name%3Dacme%7cy":    "https://h/x?fieldSelector=metadata.name%3Dy",
		"https://h/x?labelSelector=a%20acme%7Cy":                "https://h/x?labelSelector=a%20y",
		"/namespaces/big-acme%7Cx":                              "/namespaces/big-acme%7Cx",
		`"one:\nacme|x,\tacme|y"`:                               `"one:\nx,\ty"`,
	} {
		if got := PlainText(text, "acme"); got != want {
			t.Errorf("%q is %q in plain text, want %q", text, got, want)
		}
	}
	for _, n := range []Name{"", System, Name(All), Name(Everything)} {
		if text := string(n) + "|x"; PlainText(text, n) != text {
			t.Errorf("%q is %q in plain text of %q, which has no flattened names", text, PlainText(text, n), n)
		}
	}
}

func TestFlattenObject(t *testing.T) {
	namespaced, scoped := &metav1.ObjectMeta{Namespace: "shop", Name: "x"}, &metav1.ObjectMeta{Name: "x"}
	FlattenObject("acme", namespaced)
	FlattenObject("acme", scoped)
	if namespaced.Namespace != "acme|shop" || namespaced.Name != "x" || scoped.Namespace != "" || scoped.Name != "acme|x" {
		t.Errorf("got %v and %v", namespaced, scoped)
	}
}
