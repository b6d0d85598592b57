package published

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/tenant"
)

type edit func(*metav1.PartialObjectMetadata)

func metaOf(namespace, name, version string, edits ...edit) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, ResourceVersion: version, Annotations: map[string]string{}, Labels: map[string]string{},
	}}
	for _, e := range edits {
		e(o)
	}
	return o
}

func isPublished(o *metav1.PartialObjectMetadata) { o.Annotations[tenant.PublishedAnnotation] = "true" }
func isNot(o *metav1.PartialObjectMetadata)       { o.Annotations[tenant.PublishedAnnotation] = "false" }
func going(o *metav1.PartialObjectMetadata)       { o.DeletionTimestamp = &metav1.Time{} }
func copyIn(n tenant.Name, from string) edit {
	return func(o *metav1.PartialObjectMetadata) {
		o.Labels[tenant.PublishedCopyLabel] = tenant.PublishedCopy
		o.Annotations[tenant.Annotation] = n.String()
		o.Annotations[tenant.PublishedFromAnnotation] = from
	}
}

func TestSources(t *testing.T) {
	var changed []string
	s := newSources(func(o Object) { changed = append(changed, o.String()) })
	of := sourcesOf{s, configMaps}
	expect := func(what string, wantFilled bool, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, changed); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		if got := s.hasObjectsIn("ns"); got != wantFilled {
			t.Errorf("%s: namespace is published: %v", what, got)
		}
		changed = nil
	}
	of.Set(metaOf("ns", "other", "1"))
	of.Set(metaOf("ns", "no", "1", isNot))
	expect("not published", false)
	of.Set(metaOf("ns", "a", "1", isPublished))
	expect("published", true, `namespaces "ns"`, `configmaps "ns/a"`)
	of.Set(metaOf("ns", "a", "1", isPublished))
	expect("seen again", true)
	of.Set(metaOf("ns", "a", "2", isPublished))
	expect("edited", true, `configmaps "ns/a"`)
	of.Set(metaOf("ns", "b", "3", isPublished))
	expect("another", true, `configmaps "ns/b"`)
	of.Set(metaOf("ns", "a", "4"))
	expect("not published any more", true, `configmaps "ns/a"`)
	of.Set(metaOf("ns", "b", "5", isPublished, going))
	expect("being deleted", false, `namespaces "ns"`, `configmaps "ns/b"`)
	of.Delete(metaOf("ns", "b", "6", isPublished))
	expect("deleted", false)

	of.Set(metaOf("ns", "a", "7", isPublished))
	changed = nil
	of.Replace([]*metav1.PartialObjectMetadata{metaOf("ns", "b", "8", isPublished)})
	expect("missed the deletion", true, `configmaps "ns/b"`, `configmaps "ns/a"`)
	sourcesOf{s, namespaces}.Replace(nil)
	expect("another resource", true)
}

func TestSourcesWithInvalidValues(t *testing.T) {
	var changed []string
	s := newSources(func(o Object) { changed = append(changed, o.String()) })
	of := sourcesOf{s, configMaps}
	valued := func(value string) edit {
		return func(o *metav1.PartialObjectMetadata) { o.Annotations[tenant.PublishedAnnotation] = value }
	}
	object := Object{Resource: configMaps, Namespace: "ns", Name: "a"}
	for _, step := range []struct {
		what, want string
		do         func()
		invalid    bool
		published  bool
		changes    int
	}{
		{"from before", "yes", func() { of.Set(metaOf("ns", "a", "1", valued("yes"))) }, true, false, 1},
		{"seen again", "yes", func() { of.Set(metaOf("ns", "a", "2", valued("yes"))) }, true, false, 0},
		{"empty", "", func() { of.Set(metaOf("ns", "a", "3", valued(""))) }, true, false, 1},
		{"made valid", "", func() { of.Set(metaOf("ns", "a", "4", valued("true"))) }, false, true, 2}, // the namespace, too
		{"invalid again", "no", func() { of.Set(metaOf("ns", "a", "5", valued("no"))) }, true, false, 2},
		{"gone", "", func() { of.Replace(nil) }, false, false, 1},
	} {
		changed = nil
		step.do()
		value, invalid := s.invalidValue(object)
		if value != step.want || invalid != step.invalid {
			t.Errorf("%s: got %q, %v", step.what, value, invalid)
		}
		if _, published := s.version(object); published != step.published || s.hasObjectsIn("ns") != step.published {
			t.Errorf("%s: published: %v", step.what, published)
		}
		if len(changed) != step.changes {
			t.Errorf("%s: changed %q, want %d", step.what, changed, step.changes)
		}
	}
}

func TestCopies(t *testing.T) {
	changed := 0
	c := newObservedCopies(func(Object) { changed++ })
	of := copiesOf{c, configMaps}
	o := Object{Resource: configMaps, Namespace: "ns", Name: "a"}
	expect := func(what string, wantChanged int, want map[tenant.Name]string) {
		t.Helper()
		got := map[tenant.Name]string{}
		for n, found := range c.of(o) {
			got[n] = found.from.Value()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		if changed != wantChanged {
			t.Errorf("%s: told of %d changes, want %d", what, changed, wantChanged)
		}
		changed = 0
	}
	of.Set(metaOf("ns", "a", "5", copyIn("acme", "u/1")))
	of.Set(metaOf("ns", "a", "6", copyIn("globex", "u/1")))
	expect("two spaces", 2, map[tenant.Name]string{"acme": "u/1", "globex": "u/1"})
	seen, _ := copyOf(metaOf("ns", "a", "9", copyIn("acme", "u/2")))
	c.put(o, "acme", seen)
	of.Set(metaOf("ns", "a", "8", copyIn("acme", "u/1")))
	expect("an event older than what was written", 0, map[tenant.Name]string{"acme": "u/2", "globex": "u/1"})
	of.Set(metaOf("ns", "a", "9", copyIn("acme", "u/2")))
	expect("the event of what was written", 0, map[tenant.Name]string{"acme": "u/2", "globex": "u/1"})
	if !c.in("acme", "ns") || c.in("acme", "other") || c.in("initech", "ns") {
		t.Error("does not know what is in a namespace")
	}
	of.Delete(metaOf("ns", "a", "7", copyIn("acme", "u/1")))
	expect("removed before it was written again", 0, map[tenant.Name]string{"acme": "u/2", "globex": "u/1"})
	of.Delete(metaOf("ns", "a", "10", copyIn("acme", "u/2")))
	expect("removed", 1, map[tenant.Name]string{"globex": "u/1"})
	of.Replace([]*metav1.PartialObjectMetadata{metaOf("ns", "a", "11", copyIn("acme", "u/3"))})
	expect("missed events", 2, map[tenant.Name]string{"acme": "u/3"})
	copiesOf{c, namespaces}.Replace(nil)
	expect("another resource", 0, map[tenant.Name]string{"acme": "u/3"})
	c.dropAll("globex")
	expect("another space", 0, map[tenant.Name]string{"acme": "u/3"})
	c.dropAll("acme")
	expect("the space", 0, map[tenant.Name]string{})
}

func TestConflicts(t *testing.T) {
	observers := make(chan observer, 1)
	var watching context.Context
	var known *progress.Progress
	changed := 0
	c := newConflicts(func(ctx context.Context, _ Object, to observer, seen *progress.Progress) {
		watching, known = ctx, seen
		observers <- to
	}, func(Object) { changed++ })
	o := Object{Resource: configMaps, Namespace: "ns", Name: "a"}
	if c.at(o, "acme") {
		t.Error("a conflict before anything is watched")
	}
	c.watch(t.Context(), o)
	c.watch(t.Context(), o)
	to := <-observers
	if c.at(o, "acme") {
		t.Error("a conflict before it is known")
	}
	own := metaOf("ns", "a", "1", func(o *metav1.PartialObjectMetadata) { o.Annotations[tenant.Annotation] = "acme" })
	to.Replace([]*metav1.PartialObjectMetadata{own})
	known.Note("1")
	if !c.at(o, "acme") || c.at(o, "globex") || changed != 1 {
		t.Errorf("acme %v, globex %v, told %d times", c.at(o, "acme"), c.at(o, "globex"), changed)
	}
	to.Delete(own)
	if c.at(o, "acme") || changed != 2 {
		t.Errorf("acme %v, told %d times", c.at(o, "acme"), changed)
	}
	c.unwatch(o)
	if watching.Err() == nil {
		t.Error("the watch goes on")
	}
	if len(observers) > 0 {
		t.Error("two watches of one object")
	}
}

func TestReport(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "n", errors.New("no"))
	for name, tc := range map[string]struct {
		add   func(r *report)
		want  string
		again bool
	}{
		"complete": {func(r *report) { r.add("a", current, nil); r.add("b", current, nil) }, "copied to 2 of 9 spaces", false},
		"kept": {func(r *report) { r.add("b", kept, nil); r.add("a", kept, nil) },
			"copied to 0 of 9 spaces; 2 have an object of their own there, which is kept (a, b)", false},
		"many kept": {func(r *report) {
			for _, n := range []tenant.Name{"g", "f", "e", "d", "c", "b", "a"} {
				r.add(n, kept, nil)
			}
		}, "copied to 0 of 9 spaces; 7 have an object of their own there, which is kept (a, b, c, d, e and 2 more)", false},
		"waiting": {func(r *report) { r.add("b", pending, nil); r.add("a", current, nil) },
			"copied to 1 of 9 spaces; 1 wait for a namespace, or for what is there to be deleted (b)", false},
		"for good": {func(r *report) { r.add("b", 0, forbidden); r.add("a", 0, forbidden) },
			`copied to 0 of 9 spaces; 2 failed (a, b): x "n" is forbidden: no`, false},
		"for now": {func(r *report) { r.add("a", 0, errors.New("away")) }, "copied to 0 of 9 spaces; 1 failed (a): away", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReport(9)
			tc.add(r)
			if got := r.String(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if got := r.err() != nil; got != tc.again {
				t.Errorf("to be tried again: %v", got)
			}
		})
	}
}

func TestIsPermanent(t *testing.T) {
	kinds := schema.GroupResource{Resource: "configmaps"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"refused":                       {apierrors.NewForbidden(kinds, "n", errors.New("no")), true},
		"invalid":                       {apierrors.NewInvalid(schema.GroupKind{}, "n", nil), true},
		"away":                          {errors.New("connection refused"), false},
		"busy":                          {apierrors.NewTooManyRequests("busy", 1), false},
		"may not be the publisher":      {apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, tenant.Publisher, errors.New("no")), false},
		"may not have the one's groups": {apierrors.NewForbidden(schema.GroupResource{Resource: "groups"}, "system:masters", errors.New("no")), false},
	} {
		if got := isPermanent(tc.err); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPath(t *testing.T) {
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	got := []string{
		path(configMaps.WithVersion("v1"), "ns", "n"), path(configMaps.WithVersion("v1"), "ns", ""),
		path(roles, "ns", "n"), path(namespaces.WithVersion("v1"), "", "n"),
	}
	want := []string{
		"/api/v1/namespaces/ns/configmaps/n", "/api/v1/namespaces/ns/configmaps",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles/n", "/api/v1/namespaces/n",
	}
	if !slices.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestResolve(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "ConfigMap"}, {Group: "example.com", Version: "v1", Kind: "Widget"},
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	widgets, missing := schema.ParseGroupResource("widgets.example.com"), schema.ParseGroupResource("jobs.batch")
	resolved, unknown, err := resolve(mapper, []schema.GroupResource{configMaps, widgets, missing})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]schema.GroupResource{widgets, missing}, unknown); diff != "" {
		t.Error(diff)
	}
	want := map[schema.GroupResource]schema.GroupVersionResource{
		configMaps: configMaps.WithVersion("v1"), namespaces: namespaces.WithVersion("v1"), definitions: definitions.WithVersion("v1"),
	}
	if diff := cmp.Diff(want, resolved); diff != "" {
		t.Error(diff)
	}
}

func TestMeetTenant(t *testing.T) {
	c := newObservedCopies(func(Object) {})
	p := &Publisher{Reconciler: &Reconciler{copies: c}}
	o := Object{Resource: configMaps, Namespace: "ns", Name: "a"}
	has := func() bool {
		_, ok := c.get(o, "acme")
		return ok
	}
	copiesOf{c, configMaps}.Set(metaOf("ns", "a", "5", copyIn("acme", "u/1")))
	p.observeTenant("acme", "first")
	p.observeTenant("acme", "first")
	if !has() {
		t.Error("forgot the copy in a space that it has just met")
	}
	p.observeTenant("acme", "second")
	if has() {
		t.Error("takes the copy in a space that is gone for one in its successor's")
	}
}
