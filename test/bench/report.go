package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
)

// report prints the ratios of ours to stock, the first round left out.
func report(results map[string][][2]measurement, requests, workers int) {
	fmt.Printf("%d rounds, %d requests of each kind, %d at once, %d cores, %s. Ratios are those within a round: median (lowest to highest).\n\n",
		len(results["get"])-1, requests, workers, runtime.NumCPU(), runtime.Version())
	fmt.Println("| request | in a space, 1/s | stock, 1/s | throughput ratio | p99 ratio | processor time ratio |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, name := range slices.Sorted(maps.Keys(results)) {
		var ours, stock, throughput, p99, cpu []float64
		for _, round := range results[name][1:] {
			ours, stock = append(ours, round[0].perSecond), append(stock, round[1].perSecond)
			throughput = append(throughput, round[0].perSecond/round[1].perSecond)
			cpu = append(cpu, float64(round[0].cpu)/float64(round[1].cpu))
			p99 = append(p99, float64(round[0].p99)/float64(round[1].p99))
		}
		fmt.Printf("| %s | %.0f | %.0f | %s | %s | %s |\n", name, median(ours), median(stock), spread(throughput), spread(p99), spread(cpu))
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func spread(values []float64) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(values), slices.Min(values), slices.Max(values))
}
