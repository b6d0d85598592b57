package search

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// post asks in GraphQL, and reads the data of the answer into data.
func post(ctx context.Context, config *rest.Config, query string, variables map[string]any, data any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	answer, err := suite.Client(config).CoreV1().RESTClient().Post().AbsPath(search.GraphQLPath).MaxRetries(0).
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return err
	}
	var response struct {
		Data   json.RawMessage
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(answer, &response); err != nil {
		return err
	}
	if len(response.Errors) > 0 {
		return fmt.Errorf("refused: %v", response.Errors)
	}
	return json.Unmarshal(response.Data, data)
}

// detail is what a subject is told of a space beside what it finds.
type detail struct {
	Search []struct {
		Count   int
		Related []struct {
			Kind  string
			Count int
			Items []map[string]any
		}
	}
	Kinds, Namespaces []string
}

const detailQuery = `query detail($input: [SearchInput]) {
	search(input: $input) { count related { kind count items } }
	kinds: searchComplete(property: "kind")
	namespaces: searchComplete(property: "namespace")
}`

// compareDetails compares counts, completion, related objects and sorted pages with what the subject may list.
func (w *world) compareDetails(ctx context.Context, who subject, n tenant.Name, expected state, what string) {
	GinkgoHelper()
	kind := w.oneOf([]string{"Pod", "ConfigMap", "Secret", "Namespace", "Lease"})
	var got detail
	err := post(ctx, tenantry.In(n, who.config), detailQuery, map[string]any{"input": []any{
		map[string]any{"filters": []any{map[string]any{"property": "kind", "values": []any{kind}}}, "limit": -1}}}, &got)
	if isRefused(err, who) {
		Expect(expected.allowed).To(BeEmpty(), what)
		return
	}
	Expect(err).NotTo(HaveOccurred(), what)
	kinds, namespaces, matching := sets.New[string](), sets.New[string](), sets.New[object]()
	for o := range expected.allowed {
		content := expected.objects[o]
		kinds.Insert(content.GetKind())
		if o.namespace != "" && !transient(o) {
			namespaces.Insert(o.namespace)
		}
		if content.GetKind() == kind {
			matching.Insert(o)
		}
	}
	Expect(sets.New(got.Kinds...).Delete("Event")).To(Equal(kinds.Delete("Event")), what)
	Expect(sets.New(got.Namespaces...).IsSuperset(namespaces)).To(BeTrue(), "%s: %v of %v", what, got.Namespaces, namespaces)
	for namespace := range sets.New(got.Namespaces...).Difference(namespaces) { // of events alone
		Expect(transientIn(expected, namespace)).To(BeTrue(), "%s: namespace %s", what, namespace)
	}
	Expect(got.Search[0].Count).To(Equal(len(matching)), "%s: kind %s", what, kind)
	related := map[object]string{}
	for _, of := range got.Search[0].Related {
		Expect(of.Count).To(Equal(len(of.Items)), what)
		for _, item := range of.Items {
			Expect(item["kind"]).To(Equal(of.Kind))
			related[objectOf(item)] = of.Kind
		}
	}
	wanted := map[object]string{}
	for o := range expected.allowed {
		if !matching.Has(o) && isRelated(expected.objects, o, matching) {
			wanted[o] = expected.objects[o].GetKind()
		}
	}
	Expect(related).To(Equal(wanted), "%s: related to kind %s", what, kind)
	w.comparePages(ctx, who, n, expected, what)
}

func transientIn(s state, namespace string) bool {
	for o := range s.allowed {
		if transient(o) && o.namespace == namespace {
			return true
		}
	}
	return false
}

func objectOf(item map[string]any) object {
	text := func(name string) string { value, _ := item[name].(string); return value }
	return object{schema.GroupResource{Group: text("apigroup"), Resource: text("resource")}, text("namespace"), text("name")}
}

// isRelated reports whether an object says that it is related to one of others, or one of them to it.
func isRelated(all contents, o object, others sets.Set[object]) bool {
	for other := range others {
		if linksTo(all, o, other) || linksTo(all, other, o) {
			return true
		}
	}
	return false
}

// linksTo reports whether one object is owned by another one, or a pod that mounts it.
func linksTo(all contents, from, to object) bool {
	content := all[from]
	for _, owner := range content.GetOwnerReferences() {
		if owner.UID == all[to].GetUID() && (to.namespace == "" || to.namespace == from.namespace) {
			return true
		}
	}
	if from.resource.Resource != "pods" || from.namespace != to.namespace {
		return false
	}
	volumes, _, _ := unstructured.NestedSlice(content.Object, "spec", "volumes")
	names := map[string]string{"configmaps": "configMap", "secrets": "secret"}
	mounts := func(source map[string]any) bool {
		mounted, _ := source[names[to.resource.String()]].(map[string]any)
		return mounted != nil && (mounted["name"] == to.name || mounted["secretName"] == to.name)
	}
	for _, volume := range volumes {
		source, _ := volume.(map[string]any)
		if mounts(source) {
			return true
		}
		projected, _, _ := unstructured.NestedSlice(source, "projected", "sources")
		for _, part := range projected {
			if part, _ := part.(map[string]any); mounts(part) {
				return true
			}
		}
	}
	return false
}

// comparePages reads sorted pages: each object is on one.
func (w *world) comparePages(ctx context.Context, who subject, n tenant.Name, expected state, what string) {
	GinkgoHelper()
	order := w.oneOf([]string{"name", "created desc", "kind desc", "namespace", "status", "ready desc"})
	found := sets.New[object]()
	for token := ""; ; {
		request := suite.Client(tenantry.In(n, who.config)).CoreV1().RESTClient().Get().AbsPath(search.Path).MaxRetries(0).
			Param(search.ParameterQuery, "kind:!Event").Param(search.ParameterOrderBy, order).Param(search.ParameterLimit, strconv.Itoa(1+w.random.IntN(60)))
		if token != "" {
			request.Param(search.ParameterContinue, token)
		}
		body, err := request.Do(ctx).Raw()
		Expect(err).NotTo(HaveOccurred(), what)
		var page search.Answer
		Expect(json.Unmarshal(body, &page)).To(Succeed())
		for _, item := range page.Items {
			o := object{schema.GroupResource{Group: item.APIGroup, Resource: item.Resource}, item.Namespace, item.Name}
			Expect(found.Has(o)).To(BeFalse(), "%s: %v is on two pages by %s", what, o, order)
			found.Insert(o)
		}
		if token = page.Continue; token == "" {
			break
		}
	}
	wanted := sets.New[object]()
	for o := range expected.allowed {
		if !transient(o) {
			wanted.Insert(o)
		}
	}
	Expect(found).To(Equal(wanted), "%s: by %s", what, order)
}
