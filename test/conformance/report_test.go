package main

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/test/conformance/upstream"
)

func TestCompare(t *testing.T) {
	for name, tc := range map[string]struct {
		stock, space upstream.Report
		want         string
	}{
		"equal":           {upstream.Report{"a": "passed", "b": "failed"}, upstream.Report{"a": "passed", "b": "failed"}, ""},
		"better":          {upstream.Report{"a": "passed", "b": "failed"}, upstream.Report{"a": "passed", "b": "passed"}, ""},
		"worse":           {upstream.Report{"a": "passed", "b": "passed"}, upstream.Report{"a": "failed", "b": "passed"}, "passed on the stock server only:\n  a"},
		"missing":         {upstream.Report{"a": "passed"}, upstream.Report{}, "passed on the stock server only:\n  a"},
		"explained":       {upstream.Report{"a, on purpose": "passed"}, upstream.Report{"a, on purpose": "failed"}, ""},
		"nothing to show": {upstream.Report{}, upstream.Report{"a": "passed"}, "no test passed on the stock server, so there is nothing to compare with"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := compare(io.Discard, []string{"stock", "space"}, []upstream.Report{tc.stock, tc.space}, map[string]string{"on purpose": "so it is"}); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
