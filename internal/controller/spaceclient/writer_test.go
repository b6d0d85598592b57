package spaceclient

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// reasons are those of the codes that a space answers with.
var reasons = map[int]metav1.StatusReason{
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
	http.StatusConflict: metav1.StatusReasonConflict, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
}

// sent is a request that a space has got.
type sent struct {
	Method, Path, Query, Type string
	Body                      map[string]any
}

// space is a server that gives its answers in turn, which are codes of HTTP.
func space(t *testing.T, answers ...int) (*Spaces, *[]sent) {
	t.Helper()
	var got []sent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the body of a request: %v", err)
		}
		s := sent{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Type: r.Header.Get("Content-Type")}
		if err := json.Unmarshal(body, &s.Body); err != nil {
			t.Errorf("the body of a request is %q: %v", body, err)
		}
		got = append(got, s)
		if len(got) > len(answers) {
			t.Errorf("one request more than expected: %+v", s)
			return
		}
		code := answers[len(got)-1]
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		status := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
		if code >= http.StatusBadRequest {
			status.Status, status.Reason, status.Code = metav1.StatusFailure, reasons[code], int32(code) // a code of HTTP
		}
		if err := json.NewEncoder(w).Encode(status); err != nil {
			t.Errorf("answering: %v", err)
		}
	}))
	t.Cleanup(server.Close)
	spaces, err := New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, "tester")
	if err != nil {
		t.Fatal(err)
	}
	return spaces, &got
}

// roleBinding returns a binding whose UID may be known.
func roleBinding(uid types.UID) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: uid},
	}
}

const bindingPath = "/tenants/acme/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings/b"

// requests says in short what was sent. A patch that takes finalizers away is a merge patch.
func requests(all []sent) []string {
	var short []string
	for _, s := range all {
		line := s.Method
		if s.Method == http.MethodPatch {
			line = s.Type
		}
		short = append(short, line)
	}
	return short
}

const (
	apply = string(types.ApplyPatchType)
	merge = string(types.MergePatchType)
	del   = http.MethodDelete

	ok        = http.StatusOK
	forbidden = http.StatusForbidden
	notFound  = http.StatusNotFound
	conflict  = http.StatusConflict
	invalid   = http.StatusUnprocessableEntity
)

// TestApply checks that a binding with another role is made anew, and nothing else.
func TestApply(t *testing.T) {
	role := &rbacv1.Role{TypeMeta: metav1.TypeMeta{Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}}
	of := &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	for name, tc := range map[string]struct {
		object  client.Object
		answers []int
		want    []string
		failed  func(error) bool
	}{
		"as it is to be":                  {roleBinding(""), []int{ok}, []string{apply}, nil},
		"with another role":               {roleBinding(""), []int{invalid, ok, ok, ok}, []string{apply, del, merge, apply}, nil},
		"of the space, with another role": {of, []int{invalid, ok, ok, ok}, []string{apply, del, merge, apply}, nil},
		"gone meanwhile":                  {roleBinding(""), []int{invalid, notFound, notFound, ok}, []string{apply, del, merge, apply}, nil},
		"held by a finalizer":             {roleBinding(""), []int{invalid, ok, ok, invalid}, []string{apply, del, merge, apply}, apierrors.IsInvalid},
		"that cannot be deleted":          {roleBinding(""), []int{invalid, forbidden}, []string{apply, del}, apierrors.IsForbidden},
		"whose finalizers stay":           {roleBinding(""), []int{invalid, ok, forbidden}, []string{apply, del, merge}, apierrors.IsForbidden},
		"refused":                         {roleBinding(""), []int{forbidden}, []string{apply}, apierrors.IsForbidden},
		"a role that is invalid":          {role, []int{invalid}, []string{apply}, apierrors.IsInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			w, got := space(t, tc.answers...)
			err := w.Apply(t.Context(), "acme", tc.object)
			if (err != nil) != (tc.failed != nil) || err != nil && !tc.failed(err) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, requests(*got)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
	w, got := space(t, ok)
	if err := w.Apply(t.Context(), "acme", roleBinding("")); err != nil {
		t.Fatal(err)
	}
	first := (*got)[0]
	if first.Path != bindingPath || first.Query != "fieldManager=tester&force=true&timeout=1m0s" || first.Body["kind"] != "RoleBinding" {
		t.Errorf("got %+v", first)
	}
}

// TestRemove checks that another object of the name is left alone where the UID is known.
func TestRemove(t *testing.T) {
	for name, tc := range map[string]struct {
		uid     types.UID
		answers []int
		want    []string
		failed  func(error) bool
	}{
		"there":                     {"1", []int{ok, ok}, []string{del, merge}, nil},
		"not there":                 {"1", []int{notFound, notFound}, []string{del, merge}, nil},
		"another one of the name":   {"1", []int{conflict, conflict}, []string{del, merge}, nil},
		"another one meanwhile":     {"1", []int{ok, conflict}, []string{del, merge}, nil},
		"a conflict of any":         {"", []int{conflict}, []string{del}, apierrors.IsConflict},
		"a later conflict of any":   {"", []int{ok, conflict}, []string{del, merge}, apierrors.IsConflict},
		"refused":                   {"1", []int{forbidden}, []string{del}, apierrors.IsForbidden},
		"whose finalizers may stay": {"1", []int{ok, forbidden}, []string{del, merge}, apierrors.IsForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			w, got := space(t, tc.answers...)
			err := w.Remove(t.Context(), "acme", roleBinding(tc.uid))
			if (err != nil) != (tc.failed != nil) || err != nil && !tc.failed(err) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, requests(*got)); diff != "" {
				t.Fatalf("requests (-want +got):\n%s", diff)
			}
			metadata := map[string]any{"finalizers": nil}
			var preconditions any
			if tc.uid != "" {
				metadata["uid"], preconditions = string(tc.uid), map[string]any{"uid": string(tc.uid)}
			}
			if diff := cmp.Diff(preconditions, (*got)[0].Body["preconditions"]); diff != "" {
				t.Errorf("preconditions of the deletion (-want +got):\n%s", diff)
			}
			if (*got)[0].Body["propagationPolicy"] != "Background" {
				t.Errorf("the deletion is %v", (*got)[0].Body)
			}
			if len(*got) < 2 {
				return
			}
			if diff := cmp.Diff(map[string]any{"metadata": metadata}, (*got)[1].Body); diff != "" {
				t.Errorf("the change (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPatch(t *testing.T) {
	w, got := space(t, ok)
	if err := w.Patch(t.Context(), "acme", &v1alpha1.User{ObjectMeta: metav1.ObjectMeta{Name: "u"}}, "status", map[string]any{"x": "y"}); err != nil {
		t.Fatal(err)
	}
	want := []sent{{
		Method: http.MethodPatch, Path: "/tenants/acme/apis/tenantry.io/v1alpha1/users/u/status", Query: "fieldManager=tester&timeout=1m0s", Type: merge,
		Body: map[string]any{"x": "y"},
	}}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPath(t *testing.T) {
	const rbac = "/tenants/acme/apis/rbac.authorization.k8s.io/v1"
	named := metav1.ObjectMeta{Name: "x"}
	in := metav1.ObjectMeta{Namespace: "ns", Name: "x"}
	for want, o := range map[string]client.Object{
		"/tenants/acme/apis/tenantry.io/v1alpha1/users/x": &v1alpha1.User{ObjectMeta: named},
		"/tenants/acme/api/v1/namespaces/x":               &corev1.Namespace{ObjectMeta: named},
		rbac + "/clusterrolebindings/x":                   &rbacv1.ClusterRoleBinding{ObjectMeta: named},
		rbac + "/namespaces/ns/rolebindings/x":            &rbacv1.RoleBinding{ObjectMeta: in},
		rbac + "/namespaces/ns/roles/x":                   &rbacv1.Role{ObjectMeta: in},
	} {
		w, got := space(t, ok)
		if err := w.Patch(t.Context(), "acme", o, "", map[string]any{}); err != nil {
			t.Fatal(err)
		}
		if (*got)[0].Path != want {
			t.Errorf("got %s, want %s", (*got)[0].Path, want)
		}
	}
}

// TestAsPublisher checks that the publisher is impersonated, and that the given configuration stays as it is.
func TestAsPublisher(t *testing.T) {
	given := &rest.Config{Host: "x"}
	want := rest.ImpersonationConfig{UserName: tenant.Publisher, Groups: []string{"system:masters"}}
	if diff := cmp.Diff(want, AsPublisher(given).Impersonate); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if given.Impersonate.UserName != "" {
		t.Error("the given configuration was changed")
	}
}
