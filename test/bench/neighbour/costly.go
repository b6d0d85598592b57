package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Writes that cost the server much more than a request does: as much as its limits
// allow, from a few workers.
const (
	costlyWorkers = 8
	fields        = 20_000
	operations    = 10_000
	properties    = 6_000
	celItems      = 400
)

const (
	applyPatch  = "application/apply-patch+yaml"
	mergePatch  = "application/merge-patch+json"
	jsonPatch   = "application/json-patch+json"
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

	member = `"k%d":"%d"`
)

func costlyLoads() []load {
	return []load{
		{name: "applies of 20,000 fields", workers: costlyWorkers, do: func(ctx context.Context, t *tenant, worker, round int) (int, error) {
			return t.do(ctx, http.MethodPatch, configMaps+"/"+own("applied", worker)+"?fieldManager=bench&force=true", applyPatch, fmt.Sprintf(
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{%s}}`, own("applied", worker), numbered(fields, member, round)))
		}},
		{name: "20,000 labels", workers: costlyWorkers, before: func(ctx context.Context, t *tenant) error {
			return t.createOwn(ctx, "labelled")
		}, do: func(ctx context.Context, t *tenant, worker, round int) (int, error) {
			return t.do(ctx, http.MethodPatch, configMaps+"/"+own("labelled", worker), mergePatch, fmt.Sprintf(
				`{"metadata":{"labels":{%s}}}`, numbered(fields-10, member, round))) // with others, as many as a space takes
		}},
		{name: "JSON patches of 10,000 operations", workers: costlyWorkers, before: func(ctx context.Context, t *tenant) error {
			return t.createOwn(ctx, "patched")
		}, do: func(ctx context.Context, t *tenant, worker, round int) (int, error) {
			return t.do(ctx, http.MethodPatch, configMaps+"/"+own("patched", worker), jsonPatch,
				"["+numbered(operations, `{"op":"add","path":"/data/k%d","value":"%d"}`, round)+"]")
		}},
		{name: "definitions of 6,000 properties", workers: costlyWorkers, do: func(ctx context.Context, t *tenant, worker, round int) (int, error) {
			name := fmt.Sprintf("wide%d", worker)
			return t.do(ctx, http.MethodPatch, definitions+"/"+name+"s.bench.example?fieldManager=bench&force=true", applyPatch,
				definition(name, fmt.Sprintf(`{"type":"object","properties":{%s}}`, numbered(properties, `"p%d":{"type":"string","description":"%d"}`, round))))
		}},
		{name: "costly CEL", workers: costlyWorkers, before: func(ctx context.Context, t *tenant) error {
			status, err := t.do(ctx, http.MethodPost, definitions, "application/json", definition("checked", celSchema))
			return expect(status, err, http.StatusCreated, http.StatusConflict)
		}, do: func(ctx context.Context, t *tenant, worker, round int) (int, error) {
			return t.do(ctx, http.MethodPatch, "/apis/bench.example/v1/namespaces/default/checkeds/"+own("checked", worker)+"?fieldManager=bench&force=true", applyPatch, fmt.Sprintf(
				`{"apiVersion":"bench.example/v1","kind":"Checked","metadata":{"name":%q},"round":%d,"texts":[%s"x"]}`,
				own("checked", worker), round, strings.Repeat(`"x",`, celItems-1)))
		}},
	}
}

// celSchema compares all items with all others, each time an object is written.
var celSchema = fmt.Sprintf(`{"type":"object","properties":{"round":{"type":"integer"},
	"texts":{"type":"array","maxItems":%d,"items":{"type":"string","maxLength":5}}},
	"x-kubernetes-validations":[{"rule":"self.texts.all(a, self.texts.all(b, a <= b || b < a)) || self.round < 0"}]}`, celItems)

// definition returns a CustomResourceDefinition in the group bench.example.
func definition(name, schema string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.bench.example"},
		"spec":{"group":"bench.example","scope":"Namespaced","names":{"plural":"%[1]ss","singular":%[1]q,"kind":%[2]q},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%[3]s}}]}}`,
		name, strings.ToUpper(name[:1])+name[1:], schema)
}

// own is the name of a worker's object.
func own(prefix string, worker int) string { return fmt.Sprintf("%s-%d", prefix, worker) }

// createOwn creates an object for each worker.
func (t *tenant) createOwn(ctx context.Context, prefix string) error {
	for worker := range costlyWorkers {
		status, err := t.create(ctx, own(prefix, worker), "v")
		if err := expect(status, err, http.StatusCreated, http.StatusConflict); err != nil {
			return err
		}
	}
	return nil
}

// expect returns an error unless a request was answered with one of the expected statuses.
func expect(status int, err error, expected ...int) error {
	if err == nil && !slices.Contains(expected, status) {
		err = fmt.Errorf("unexpected status %d", status)
	}
	return err
}

// numbered returns elements of a JSON object or array, each with its number and a value.
func numbered(count int, format string, value any) string {
	var b strings.Builder
	for i := range count {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i, value)
	}
	return b.String()
}
