package metrics

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"
)

// Tenants choose the names of their custom resources, groups, versions, webhooks, policies
// and hosts. Upstream's metrics have a series for each of them, forever. Bound makes them
// share one series with the label "unexpected", as upstream calls it.

// The labels of upstream's metrics that can have such names, besides those of
// byResource.
var byName = map[string][]string{
	"name": {
		"apiserver_admission_webhook_admission_duration_seconds", "apiserver_admission_webhook_rejection_count",
		"apiserver_admission_webhook_fail_open_count", "apiserver_admission_webhook_request_total",
		"apiserver_admission_match_condition_evaluation_errors_total", "apiserver_admission_match_condition_exclusions_total",
		"apiserver_admission_match_condition_evaluation_seconds",
	},
	"policy":         policyMetrics,
	"policy_binding": policyMetrics,
	"crd":            {"apiextensions_openapi_v2_regeneration_count", "apiextensions_openapi_v3_regeneration_count"},
	"crd_name":       {"apiserver_crd_conversion_webhook_duration_seconds"},
	"from_version":   {"apiserver_crd_conversion_webhook_duration_seconds"},
	"to_version":     {"apiserver_crd_conversion_webhook_duration_seconds"},
	"host": {
		"rest_client_request_duration_seconds", "rest_client_dns_resolution_duration_seconds", "rest_client_request_size_bytes",
		"rest_client_response_size_bytes", "rest_client_rate_limiter_duration_seconds", "rest_client_requests_total",
		"rest_client_request_retries_total",
	},
}

var policyMetrics = []string{
	"apiserver_validating_admission_policy_check_total", "apiserver_validating_admission_policy_check_duration_seconds",
	"apiserver_mutating_admission_policy_check_total", "apiserver_mutating_admission_policy_check_duration_seconds",
}

// byResource are upstream's metrics with some of the labels resource, group and
// version.
var byResource = []string{
	"apiserver_request_total", "apiserver_request_duration_seconds", "apiserver_request_slo_duration_seconds",
	"apiserver_request_sli_duration_seconds", "apiserver_request_body_size_bytes", "apiserver_request_terminations_total",
	"apiserver_request_aborts_total", "apiserver_requested_deprecated_apis", "apiserver_response_sizes",
	"apiserver_longrunning_requests", "apiserver_selfrequest_total", "apiserver_watch_events_total",
	"apiserver_watch_events_sizes", "apiserver_watch_list_duration_seconds",
	"apiserver_rerouted_request_total", "apiserver_peer_proxy_errors_total",
	"apiserver_cache_list_total", "apiserver_cache_list_fetched_objects_total", "apiserver_cache_list_returned_objects_total",
	"apiserver_init_events_total", "apiserver_terminated_watchers_total", "apiserver_storage_consistency_checks_total",
	"apiserver_watch_cache_events_received_total", "apiserver_watch_cache_events_dispatched_total",
	"apiserver_watch_cache_resource_version", "apiserver_watch_cache_initializations_total",
	"apiserver_watch_cache_read_wait_seconds", "apiserver_watch_cache_consistent_read_total",
	"apiserver_watch_shards_total", "apiserver_watch_filtered_events_total",
	"watch_cache_capacity", "watch_cache_capacity_increase_total", "watch_cache_capacity_decrease_total",
	"apiserver_storage_objects", "apiserver_resource_objects", "apiserver_resource_size_estimate_bytes",
	"apiserver_storage_events_received_total", "apiserver_storage_list_total", "apiserver_storage_list_fetched_objects_total",
	"apiserver_storage_list_evaluated_objects_total", "apiserver_storage_list_returned_objects_total",
	"apiserver_storage_decode_errors_total", "apiserver_storage_transformation_operations_total",
	"apiserver_storage_list_duration_seconds", "apiserver_watch_cache_initialization_duration_seconds",
	"apiserver_watch_cache_initialization_errors_total", "apiserver_watch_events_dispatch_duration_seconds",
	"etcd_request_duration_seconds", "etcd_requests_total", "etcd_request_errors_total", "etcd_bookmark_counts", "etcd_bookmark_total",
	"apiextensions_openapi_v3_regeneration_count",
}

// Bound limits the series of upstream's metrics to the types in schemes. It must be called
// before any of them is counted, and before --allow-metric-labels is applied: names in that
// flag, such as the administrators' own webhooks, have series of their own.
func Bound(schemes ...*runtime.Scheme) {
	bound.Do(func() { metrics.SetLabelAllowList(Allowed(schemes...)) })
}

var bound sync.Once

// Allowed returns the values of labels that have series of their own, separated by
// commas, by the names of metric and label, as in --allow-metric-labels.
func Allowed(schemes ...*runtime.Scheme) map[string]string {
	resources, groups, versions := sets.New(""), sets.New(""), sets.New("")
	for _, scheme := range schemes {
		for kind := range scheme.AllKnownTypes() {
			plural, _ := meta.UnsafeGuessKindToResource(kind)
			resources.Insert(plural.Resource, plural.GroupResource().String())
			groups.Insert(kind.Group)
			versions.Insert(kind.Version)
		}
	}
	values := map[string]string{}
	for label, known := range map[string]sets.Set[string]{"resource": resources, "group": groups, "version": versions} {
		joined := strings.Join(sets.List(known), ",")
		for _, name := range byResource {
			values[name+","+label] = joined
		}
	}
	for label, names := range byName {
		for _, name := range names {
			values[name+","+label] = ""
		}
	}
	return values
}
