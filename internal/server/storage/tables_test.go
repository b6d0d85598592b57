package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// largeText has 1,450,000 bytes in memory or in JSON.
const largeText = 1_450_000

// stretch gives an object a long text.
func stretch(obj runtime.Object, bytes int) {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		o.Object["s"] = []any{strings.Repeat("<", bytes/len(`\u003c`))}
	case *corev1.ConfigMap:
		o.Data = map[string]string{"s": strings.Repeat("x", bytes)}
	}
}

// createSized creates an object with a text.
func (s *store) createSized(t *testing.T, n tenant.Name, name string, bytes int) {
	t.Helper()
	object := s.newObject()
	object.SetName(name)
	object.SetNamespace("default")
	stretch(object.(runtime.Object), bytes)
	if err := s.Create(s.in(t, n.Scope(), "default"), s.key("default", name), object.(runtime.Object), s.newFunc(), 0); err != nil {
		t.Fatal(err)
	}
}

func (s *store) limited() *limitedLists {
	resource := configMaps
	if _, custom := s.newListFunc().(*unstructured.UnstructuredList); custom {
		resource = schema.GroupResource{Group: "example.com", Resource: "widgets"}
	}
	return &limitedLists{Interface: s.Space, resource: resource, newList: s.newListFunc, codec: s.codec}
}

var configMaps = schema.GroupResource{Resource: "configmaps"}

func whole(ctx context.Context) context.Context           { return WithTable(ctx, true) }
func partialMetadata(ctx context.Context) context.Context { return WithTable(ctx, false) }
func noTable(ctx context.Context) context.Context         { return ctx }

func TestTables(t *testing.T) {
	b := newBackend(t)
	widgets, configMaps := b.customs(t, "a", true, true), b.configMaps(t, true)
	const all = 12
	for i := range all {
		widgets.createSized(t, "a", fmt.Sprintf("w%02d", i), largeText)
		configMaps.createSized(t, "a", fmt.Sprintf("c%02d", i), largeText)
	}
	last := version(t, configMaps.create(t, "a", "other", last))
	pageFrom := func(limit int64, version string, match metav1.ResourceVersionMatch) func(*storage.ListOptions) {
		return func(o *storage.ListOptions) { page(limit, "")(o); from(version, match)(o) }
	}
	tests := map[string]struct {
		as        func(context.Context) context.Context
		typed     bool
		limit     int64
		request   func(*storage.ListOptions)
		want      int
		remaining int64
		refused   bool
		most      int // if not maxTable
	}{
		"a page":                       {as: partialMetadata, request: page(500, ""), want: 2, remaining: all - 2},
		"a page with whole objects":    {as: whole, request: page(500, ""), want: 2, remaining: all - 2},
		"a page of any version":        {as: partialMetadata, request: pageFrom(500, "0", ""), want: 2, remaining: all - 2},
		"a page of a version":          {as: partialMetadata, request: pageFrom(500, last, metav1.ResourceVersionMatchExact), want: 2, remaining: all - 2},
		"a page not older than":        {as: partialMetadata, request: pageFrom(500, last, metav1.ResourceVersionMatchNotOlderThan), want: 2, remaining: all - 2},
		"a small page":                 {as: partialMetadata, request: page(1, ""), want: 1, remaining: all - 1},
		"a page, fewer allowed":        {as: partialMetadata, limit: 1, request: page(500, ""), want: 1, remaining: all - 1},
		"a page of no table":           {as: noTable, request: page(500, ""), want: all},
		"all":                          {as: partialMetadata, request: from("", ""), refused: true},
		"all of any version":           {as: partialMetadata, request: from("0", ""), refused: true},
		"all, by a limit that is none": {as: partialMetadata, request: page(-1, ""), refused: true},
		"all of no table":              {as: noTable, request: from("", ""), want: all},
		"metrics":                      {as: WithMetrics, request: from("", ""), refused: true, most: maxMetrics},
		"a page of metrics":            {as: WithMetrics, request: page(500, ""), want: 2, remaining: all - 2},
		"what is selected":             {as: partialMetadata, request: named("w03"), want: 1},
		"typed, a page":                {as: partialMetadata, typed: true, request: page(500, ""), want: all},
		"typed, all":                   {as: partialMetadata, typed: true, request: from("", ""), want: all},
		"typed, a page of whole ones":  {as: whole, typed: true, request: page(500, ""), want: 2, remaining: all - 2},
		"typed, all whole":             {as: whole, typed: true, request: from("", ""), refused: true},
	}
	for where, cached := range map[string]bool{"cache": true, "etcd": false} {
		widgets, configMaps := b.customs(t, "a", true, cached), b.configMaps(t, cached)
		for name, tc := range tests {
			t.Run(where+"/"+name, func(t *testing.T) {
				s := widgets
				if tc.typed {
					s = configMaps
				}
				ctx := tc.as(s.in(t, "a", "default"))
				if tc.limit > 0 {
					ctx = WithListLimit(ctx, ListLimit{Objects: tc.limit})
				}
				list := s.newListFunc()
				err := s.limited().GetList(ctx, registry.NamespaceKeyRootFunc(ctx, s.prefix), listOptions(tc.request), list)
				if tc.refused {
					most := tc.most
					if most == 0 {
						most = maxTable
					}
					if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), fmt.Sprintf(" have more than %d bytes", most)) {
						t.Errorf("got %v, want a refusal", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				accessor := list.(metav1.ListInterface)
				if got := meta.LenList(list); got != tc.want || (accessor.GetContinue() != "") != (tc.remaining > 0) {
					t.Errorf("%d objects, token %q; want %d", got, accessor.GetContinue(), tc.want)
				}
				var remaining int64
				if left := accessor.GetRemainingItemCount(); left != nil {
					remaining = *left
				}
				if cached && remaining != tc.remaining { // the predicate below the cache keeps upstream from counting
					t.Errorf("%d remain, want %d", remaining, tc.remaining)
				}
			})
		}
		t.Run(where+"/all pages", func(t *testing.T) {
			var got, want []string
			for token, more := "", true; more; more = token != "" {
				ctx := partialMetadata(widgets.in(t, "a", "default"))
				list := &unstructured.UnstructuredList{}
				if err := widgets.limited().GetList(ctx, registry.NamespaceKeyRootFunc(ctx, widgets.prefix), listOptions(page(500, token)), list); err != nil {
					t.Fatal(err)
				}
				token = list.GetContinue()
				for _, item := range list.Items {
					got = append(got, item.GetName())
				}
			}
			for i := range all {
				want = append(want, fmt.Sprintf("w%02d", i))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// listOf is a storage of a list.
type listOf struct {
	storage.Interface
	items   []runtime.Object
	noPages bool
}

func (l *listOf) GetList(_ context.Context, _ string, opts storage.ListOptions, list runtime.Object) error {
	items := l.items
	if limit := int(opts.Predicate.Limit); limit > 0 && limit < len(items) && !l.noPages {
		items = items[:limit]
	}
	return meta.SetList(list, items)
}

func newWidget(bytes int) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	stretch(object, bytes)
	return object
}

func TestTablesOfWhatHasNoPages(t *testing.T) {
	s := &limitedLists{
		Interface: &listOf{items: []runtime.Object{newWidget(largeText), newWidget(largeText), newWidget(largeText)}, noPages: true},
		newList:   func() runtime.Object { return &unstructured.UnstructuredList{} },
	}
	if err := s.GetList(partialMetadata(t.Context()), "", listOptions(page(500, "")), s.newList()); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("got %v, want a refusal", err)
	}
}

// TestTablesOfMetadata checks that all metadata of built-in resources counts.
func TestTablesOfMetadata(t *testing.T) {
	const third = maxBuiltInPage / 3 // of a page, so that two objects fit
	text := strings.Repeat("<", third/len(`\u003c`))
	for name, object := range map[string]metav1.ObjectMeta{
		"names":          {Name: text},
		"prefixes":       {GenerateName: text},
		"labels":         {Labels: map[string]string{"a": text}},
		"keys":           {Labels: map[string]string{text: "a"}},
		"annotations":    {Annotations: map[string]string{"a": text}},
		"owners":         {OwnerReferences: []metav1.OwnerReference{{Name: text}}},
		"kinds":          {OwnerReferences: []metav1.OwnerReference{{Kind: text}}},
		"versions":       {OwnerReferences: []metav1.OwnerReference{{APIVersion: text}}},
		"UIDs":           {OwnerReferences: []metav1.OwnerReference{{UID: types.UID(text)}}},
		"finalizers":     {Finalizers: []string{text}},
		"managed fields": {ManagedFields: []metav1.ManagedFieldsEntry{{}, {FieldsV1: metav1.NewFieldsV1(text)}}},
		"managers":       {ManagedFields: []metav1.ManagedFieldsEntry{{Manager: text}}},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{ObjectMeta: object}
			s := &limitedLists{
				Interface: &listOf{items: slices.Repeat([]runtime.Object{object}, 13)}, resource: configMaps,
				newList: func() runtime.Object { return &corev1.ConfigMapList{} },
			}
			list := s.newList()
			if err := s.GetList(partialMetadata(t.Context()), "", listOptions(page(500, "")), list); err != nil || meta.LenList(list) != 2 {
				t.Errorf("a page has %d objects, %v; want 2", meta.LenList(list), err)
			}
			if err := s.GetList(partialMetadata(t.Context()), "", listOptions(), s.newList()); !apierrors.IsRequestEntityTooLargeError(err) {
				t.Errorf("without pages: got %v, want a refusal", err)
			}
		})
	}
}

// TestTablesOfBuiltIn checks that what columns may show counts of built-in resources, and nothing more of the largest.
func TestTablesOfBuiltIn(t *testing.T) {
	const third = maxBuiltInPage / 3
	subjects := []rbacv1.Subject{{Name: strings.Repeat("a", third)}}
	for _, tc := range []struct {
		resource schema.GroupResource
		object   runtime.Object
		list     runtime.Object
		want     int
	}{
		{rbacv1.Resource("rolebindings"), &rbacv1.RoleBinding{Subjects: subjects}, &rbacv1.RoleBindingList{}, 2},
		{rbacv1.Resource("clusterrolebindings"), &rbacv1.ClusterRoleBinding{Subjects: subjects}, &rbacv1.ClusterRoleBindingList{}, 2},
		{corev1.Resource("events"), &corev1.Event{Message: subjects[0].Name}, &corev1.EventList{}, 2},
		{corev1.Resource("configmaps"), &corev1.ConfigMap{Data: map[string]string{"a": subjects[0].Name}}, &corev1.ConfigMapList{}, 4},
		{corev1.Resource("secrets"), &corev1.Secret{Data: map[string][]byte{"a": []byte(subjects[0].Name)}}, &corev1.SecretList{}, 4},
		{corev1.Resource("pods"), &corev1.Pod{Status: corev1.PodStatus{Message: subjects[0].Name}}, &corev1.PodList{}, 4},
	} {
		s := &limitedLists{
			Interface: &listOf{items: slices.Repeat([]runtime.Object{tc.object}, 4)}, resource: tc.resource,
			newList: tc.list.DeepCopyObject,
		}
		if err := s.GetList(partialMetadata(t.Context()), "", listOptions(page(500, "")), tc.list); err != nil || meta.LenList(tc.list) != tc.want {
			t.Errorf("a page of %s has %d objects, %v; want %d", tc.resource, meta.LenList(tc.list), err, tc.want)
		}
	}
}

func TestFitting(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes []int
		want  int
		fits  bool
	}{
		"nothing":             {want: 0, fits: true},
		"all":                 {bytes: []int{300, 300, 300}, want: 3, fits: true},
		"some":                {bytes: []int{300, 300, 600, 300}, want: 2},
		"one that is too big": {bytes: []int{3000}, want: 1, fits: true},
		"the first too big":   {bytes: []int{3000, 300}, want: 1},
		"the last too big":    {bytes: []int{300, 3000}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			list := &unstructured.UnstructuredList{}
			for _, bytes := range tc.bytes {
				list.Items = append(list.Items, *newWidget(bytes))
			}
			n, fits, err := customMeasure.fitting(list, 1000)
			if err != nil || n != tc.want || fits != tc.fits {
				t.Errorf("got %d, %t, %v; want %d, %t", n, fits, err, tc.want, tc.fits)
			}
		})
	}
}

// TestJSONBytes checks that what is measured is not less than what is written.
func TestJSONBytes(t *testing.T) {
	for name, value := range map[string]any{
		"nothing":   nil,
		"text":      "text",
		"escaped":   "\"\\<>&\n\t\x00\x1f",
		"lists":     []any{[]any{}, []any{"a", int64(1)}, true},
		"maps":      map[string]any{"a": map[string]any{"<b>": []any{"c"}}, "d": map[string]any{}},
		"many":      map[string]any{"l": make([]any, 1000)},
		"in spaces": strings.Repeat("\\", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			written, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if got := jsonBytes(value); got < len(written) || got > 3*len(written)+8 {
				t.Errorf("got %d bytes, and %d are written", got, len(written))
			}
		})
	}
}

func TestWatchesAsTables(t *testing.T) {
	b := newBackend(t)
	const small, large = 1000, maxTableEvent + 1000
	for name, tc := range map[string]struct {
		as      func(context.Context) context.Context
		typed   bool
		initial bool
		deleted bool
		passes  bool
	}{
		"large":                  {as: partialMetadata},
		"whole":                  {as: whole},
		"there before":           {as: partialMetadata, initial: true},
		"deleted":                {as: partialMetadata, deleted: true},
		"no table":               {as: noTable, passes: true},
		"no table, there before": {as: noTable, initial: true, passes: true},
		"typed":                  {as: partialMetadata, typed: true, passes: true},
		"typed and whole":        {as: whole, typed: true},
	} {
		for _, watchers := range []int{1, 5} { // many share an object
			t.Run(fmt.Sprintf("%s/%d", name, watchers), func(t *testing.T) {
				s := b.widgets(t, "a", true)
				if tc.typed {
					s = b.configMaps(t, true)
				}
				before := version(t, s.create(t, "a", "default", "before"))
				write := func() {
					s.createSized(t, "a", "a-small", small)
					s.createSized(t, "a", "b-large", large)
				}
				clean := func() {
					for _, name := range []string{"before", "a-small", "b-large"} {
						s.remove(t, "a", "default", name)
					}
				}
				since, want := from(before, ""), []string{"ADDED a-small", "ADDED b-large"}
				switch {
				case tc.initial:
					write()
					since, want = from("", ""), []string{"ADDED a-small", "ADDED b-large"}
				case tc.deleted:
					write()
					before = version(t, s.create(t, "a", "default", "last"))
					s.remove(t, "a", "default", "last")
					since, want = from(before, ""), []string{"DELETED last", "DELETED before", "DELETED a-small", "DELETED b-large"}
				}
				var watches []watch.Interface
				for range watchers {
					ctx := tc.as(s.in(t, "a", "default"))
					w, err := s.limited().Watch(ctx, registry.NamespaceKeyRootFunc(ctx, s.prefix), listOptions(since))
					if err != nil {
						t.Fatal(err)
					}
					defer w.Stop()
					watches = append(watches, w)
				}
				if !tc.initial && !tc.deleted {
					write()
				}
				if tc.deleted {
					clean()
				} else {
					defer clean()
				}
				if !tc.passes {
					want[len(want)-1] = "ERROR"
				}
				for _, w := range watches {
					got := []string{}
					for len(got) < len(want) {
						event, ok := <-w.ResultChan()
						if !ok {
							t.Fatalf("ended after %v", got)
						}
						if event.Type == watch.Error {
							status := event.Object.(*metav1.Status)
							if status.Reason != metav1.StatusReasonRequestEntityTooLarge || !strings.Contains(status.Message, " default/b-large has 26") {
								t.Errorf("got %v", status)
							}
							if _, ok := <-w.ResultChan(); ok {
								t.Error("the watch goes on")
							}
							got = append(got, "ERROR")
							break
						}
						accessor, err := meta.Accessor(event.Object)
						if err != nil {
							t.Fatal(err)
						}
						if tc.initial && accessor.GetName() == "before" {
							continue
						}
						got = append(got, string(event.Type)+" "+accessor.GetName())
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Error(diff)
					}
				}
			})
		}
	}
}

// TestBookmarksAsTables checks that what has no large object passes.
func TestBookmarksAsTables(t *testing.T) {
	s := newBackend(t).widgets(t, "a", true)
	since := from(version(t, s.create(t, "a", "default", "small")), "")
	ctx := partialMetadata(s.in(t, "a", "default"))
	w, err := s.limited().Watch(ctx, registry.NamespaceKeyRootFunc(ctx, s.prefix), listOptions(since, streaming))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, want := range []watch.EventType{watch.Added, watch.Bookmark} {
		if event := <-w.ResultChan(); event.Type != want {
			t.Errorf("got %v, want %s", event, want)
		}
	}
	bookmark := watch.Event{Type: watch.Bookmark, Object: newWidget(maxTableEvent)}
	if size, err := customMeasure.sizeIn(bookmark); err != nil || size <= maxTableEvent {
		t.Errorf("a large bookmark has %d bytes, %v", size, err)
	}
}

// TestTableWatchesStop checks that a watch ends after an error, which it passes on, and when it is stopped though
// nobody reads.
func TestTableWatchesStop(t *testing.T) {
	failing, stopped := watch.NewFake(), watch.NewFake()
	w := newTableWatch(failing, schema.GroupResource{}, customMeasure)
	failing.Error(&metav1.Status{Reason: metav1.StatusReasonExpired})
	if event := <-w.ResultChan(); event.Type != watch.Error || event.Object.(*metav1.Status).Reason != metav1.StatusReasonExpired {
		t.Errorf("got %v, want the error of the source", event)
	}
	unread := newTableWatch(stopped, schema.GroupResource{}, customMeasure)
	stopped.Add(newWidget(1))
	unread.Stop()
	for range w.ResultChan() { // until it is closed
	}
	for range unread.ResultChan() {
	}
	if !failing.IsStopped() || !stopped.IsStopped() {
		t.Error("a source goes on")
	}
}
