"""Barriers that write down what a method asks, and crossings as subjects of an audit."""
