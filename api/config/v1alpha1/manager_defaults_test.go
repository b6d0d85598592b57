package v1alpha1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const header = "apiVersion: config.tenantry.io/v1alpha1\nkind: ManagerConfiguration\n"

func TestLoadManagerConfiguration(t *testing.T) {
	var defaults ManagerConfiguration
	defaults.Default()
	for name, tc := range map[string]struct {
		file string
		want ManagerConfiguration
		err  string
	}{
		"quota": {
			file: header + "defaultQuota: {pods: 5}\n",
			want: ManagerConfiguration{DefaultQuota: corev1.ResourceList{"pods": resource.MustParse("5")}, Concurrency: 16, Publishable: defaultPublishable},
		},
		"concurrency": {
			file: header + "defaultQuota: {pods: 5}\nconcurrency: 3\n",
			want: ManagerConfiguration{DefaultQuota: corev1.ResourceList{"pods": resource.MustParse("5")}, Concurrency: 3, Publishable: defaultPublishable},
		},
		"publishable": {
			file: header + "defaultQuota: {pods: 5}\npublishable: [configmaps, roles.rbac.authorization.k8s.io]\n",
			want: ManagerConfiguration{DefaultQuota: corev1.ResourceList{"pods": resource.MustParse("5")}, Concurrency: 16,
				Publishable: []string{"configmaps", "roles.rbac.authorization.k8s.io"}},
		},
		"never publishable":        {file: header + "publishable: [pods]\n", err: "\"pods\" cannot be published"},
		"publishable twice":        {file: header + "publishable: [secrets, secrets]\n", err: "there twice"},
		"publishable unknown":      {file: header + "publishable: [secrets, foos]\n", err: "\"foos\" is not built in"},
		"publishable kind":         {file: header + "publishable: [ConfigMap]\n", err: "\"ConfigMap\" is not built in"},
		"publishable no group":     {file: header + "publishable: [deployments]\n", err: "\"deployments\" is not built in"},
		"publishable custom":       {file: header + "publishable: [widgets.example.com]\n", err: "\"widgets.example.com\" is not built in"},
		"unknown field":            {file: header + "quota: {}\n", err: `unknown field "quota"`},
		"empty quota":              {file: header + "defaultQuota: {}\n", err: "every tenant has a quota"},
		"no limit":                 {file: header + "defaultQuota: {pods: }\n", err: "defaultQuota[pods]: it has no value; write 0 to allow nothing"},
		"negative limit":           {file: header + "defaultQuota: {pods: -1}\n", err: "negative"},
		"limit of no quota":        {file: header + "defaultQuota: {count/configmaps.: 1}\n", err: "defaultQuota[count/configmaps.]"},
		"unknown limit":            {file: header + "defaultQuota: {pod: 1}\n", err: "defaultQuota[pod]"},
		"count of a singular":      {file: header + "defaultQuota: {count/pod: 1}\n", err: "defaultQuota[count/pod]"},
		"count of one, with group": {file: header + "defaultQuota: {count/deployment.apps: 1}\n", err: "defaultQuota[count/deployment.apps]"},
		"count in a wrong group":   {file: header + "defaultQuota: {count/pods.apps: 1}\n", err: "spaces have no resource \"pods\" in API group \"apps\""},
		"count in a former group":  {file: header + "defaultQuota: {count/deployments.extensions: 1}\n", err: "spaces have no resource"},
		"count of tenants":         {file: header + "defaultQuota: {count/tenants.tenantry.io: 1}\n", err: "spaces have no resource"},
		"counts": {
			file: header + "defaultQuota: {count/deployments.apps: 5, count/widgets.example.com: 5, count/customresourcedefinitions.apiextensions.k8s.io: 5, count/namespaces: 5, count/users.tenantry.io: 5}\n",
			want: ManagerConfiguration{Concurrency: 16, Publishable: defaultPublishable, DefaultQuota: corev1.ResourceList{
				"count/deployments.apps": resource.MustParse("5"), "count/widgets.example.com": resource.MustParse("5"),
				"count/customresourcedefinitions.apiextensions.k8s.io": resource.MustParse("5"), "count/namespaces": resource.MustParse("5"),
				"count/users.tenantry.io": resource.MustParse("5"),
			}},
		},
		"negative concurrency": {file: header + "concurrency: -1\n", err: "concurrency: -1 is not between 1 and 1000"},
		"much concurrency":     {file: header + "concurrency: 1001\n", err: "concurrency: 1001 is not between 1 and 1000"},
		"two documents":        {file: header + "---\n" + header + "concurrency: 3\n", err: "several YAML documents"},
		"a comment before": {
			file: "# comment\n---\n" + header + "concurrency: 3\n---\n",
			want: ManagerConfiguration{DefaultQuota: defaults.DefaultQuota, Concurrency: 3, Publishable: defaultPublishable},
		},
		"other kind": {file: "apiVersion: v1\nkind: Tenant\n", err: "ManagerConfiguration"},
		"no YAML":    {file: "{", err: "reading"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "manager.yaml")
			if err := os.WriteFile(path, []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := LoadManagerConfiguration(path)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tc.want.TypeMeta = got.TypeMeta
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBuiltin knows what can be published by default, and resources that are not called
// like their kinds.
func TestBuiltin(t *testing.T) {
	for _, name := range append(DefaultPublishable(), "deployments.apps", "endpoints", "podtemplates", "ingresses.networking.k8s.io") {
		if err := ValidatePublishable([]string{name}); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadManagerConfigurationDefaults(t *testing.T) {
	got, err := LoadManagerConfiguration("")
	if err != nil {
		t.Fatal(err)
	}
	if bytes := got.DefaultQuota[v1alpha1.ResourceStoredBytes]; bytes.Value() <= 0 {
		t.Error("by default, nothing keeps a tenant from filling etcd")
	}
	if len(got.DefaultQuota) == 0 || got.Concurrency == 0 {
		t.Errorf("incomplete defaults: %+v", got)
	}
	if _, err := LoadManagerConfiguration(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing file is no error")
	}
}
